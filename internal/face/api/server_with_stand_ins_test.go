package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// newServer is a server with a stand-in for whatever a test leaves out: bounds that normal use never reaches, and parts
// that answer and have nothing.
func newServer(cfg api.Config, deps api.Deps) (*api.Server, error) {
	for _, one := range []func(*api.Deps){healthyParts, emptyViews, noGames} {
		one(&deps)
	}
	return api.New(bounded(cfg), deps)
}

// longestWait is how long a poll may wait where a test does not say.
const longestWait = time.Minute

func bounded(cfg api.Config) api.Config {
	cfg.MaxBodyBytes, cfg.MaxWait = cmp.Or(cfg.MaxBodyBytes, 1<<20), cmp.Or(cfg.MaxWait, longestWait)
	l := cfg.Limits
	cfg.Limits = api.Limits{
		Runs: cmp.Or(l.Runs, 50), GamesPerRun: cmp.Or(l.GamesPerRun, 8192), Requests: cmp.Or(l.Requests, 256),
		WaitingClaims: cmp.Or(l.WaitingClaims, 4096), Streams: cmp.Or(l.Streams, 256),
		Connections: cmp.Or(l.Connections, 8192), ConnectionsPerAddress: cmp.Or(l.ConnectionsPerAddress, 128),
		StepMetricsBytes: cmp.Or(l.StepMetricsBytes, 32<<10),
	}
	return cfg
}

func healthyParts(d *api.Deps) {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Tell == nil {
		d.Tell = telemetry.Discard
	}
	if d.OnRefusal == nil {
		d.OnRefusal = func(string) {}
	}
	if d.Ready == nil {
		d.Ready = func(context.Context) error { return nil }
	}
	if d.Temporal == nil {
		d.Temporal = func() bool { return true }
	}
	if d.Storage == nil {
		d.Storage = func() []string { return nil }
	}
	if d.Metrics == nil {
		d.Metrics = http.NotFoundHandler()
	}
	if d.Changes == nil {
		d.Changes = func(ctx context.Context, _ func(), _ func(rollout.RunName)) error {
			<-ctx.Done()
			return nil
		}
	}
}

func emptyViews(d *api.Deps) {
	if d.Sinks == nil {
		d.Sinks = func(context.Context) ([]telemetry.SinkStatus, error) { return nil, nil }
	}
	if d.Engines == nil {
		d.Engines = func(context.Context, rollout.RunName, time.Time, time.Time) ([]enginestate.EngineView, error) {
			return nil, nil
		}
	}
	if d.FleetView == nil {
		d.FleetView = func(context.Context, rollout.RunName, time.Time, time.Time) (steprecord.FleetView, error) {
			return steprecord.FleetView{}, nil
		}
	}
	if d.Diagnose == nil {
		d.Diagnose = func(context.Context, rollout.RunName, api.DiagnosisQuery) (any, error) { return nil, nil }
	}
}

// noGame is how whoever asks for what a test does not have is refused.
var noGame = rollout.Refuse(rollout.NotRetained, "nothing is kept here")

// nothing keeps no games, and no events that were refused.
type nothing struct{}

func (nothing) Games(context.Context, rollout.RunName, gamelist.Query) (gamelist.Page, error) {
	return gamelist.Page{}, noGame
}

func (nothing) Turns(context.Context, rollout.EpisodeRef) (gamelist.Turns, error) {
	return gamelist.Turns{}, noGame
}

func (nothing) Turn(context.Context, rollout.EpisodeRef, int) (gamelist.Turn, error) {
	return gamelist.Turn{}, noGame
}

func (nothing) DeadLetters(context.Context, string, int) ([]delivery.DeadLetter, error) {
	return nil, nil
}
func (nothing) DeadLetterCount(context.Context) (kept, all int64, err error) { return 0, 0, nil }
func (nothing) Replay(context.Context, ...string) (int, error)               { return 0, nil }
func (nothing) DropDeadLetters(context.Context, ...string) (int, error)      { return 0, nil }
func (nothing) ForgetSink(context.Context) error                             { return nil }

func noGames(d *api.Deps) {
	if d.Games == nil {
		d.Games = nothing{}
	}
	if d.Game == nil {
		d.Game = func(context.Context, rollout.EpisodeRef) (json.RawMessage, error) { return nil, noGame }
	}
	if d.DeadLetters == nil {
		d.DeadLetters = nothing{}
	}
	if d.SetScaling == nil {
		d.SetScaling = func(context.Context, scaling.SettingsChange) (scaling.Config, []string, error) {
			return scaling.Config{}, nil, rollout.Refuse(rollout.NotScaled, "nothing is scaled here")
		}
	}
}
