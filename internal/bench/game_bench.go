package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/dispatch/live"
	"github.com/millrace/millrace/internal/rollout"
)

// GameConfig says how one group of games is played.
type GameConfig struct {
	URL     string  // of the engine; empty: a simulated one
	Model   string  // as in Config
	Speed   float64 // of a simulated engine
	Samples int     // games
	Years   int     // of a game
	Say     func(format string, args ...any)
}

// DefaultGameConfig is the reference group.
func DefaultGameConfig() GameConfig {
	d := DefaultConfig()
	return GameConfig{Speed: 10, Samples: d.Samples, Years: d.Years}
}

// engines is the configuration of the one engine that is played on.
func (c GameConfig) engines() Config {
	cfg := DefaultConfig()
	cfg.Counts, cfg.Model, cfg.Speed, cfg.Samples, cfg.Years, cfg.Say = []int{1}, c.Model, c.Speed,
		c.Samples, c.Years, c.Say
	if c.URL != "" {
		cfg.URLs, cfg.Speed = []string{c.URL}, 1
	}
	return cfg
}

// Validate reports everything that is wrong with c.
func (c GameConfig) Validate() error { return c.engines().Validate() }

// GameRow is one way of playing the games. Seconds and rates are of the engine's clock: those of a simulated engine are
// multiplied and divided by its speed.
type GameRow struct {
	Mode                    string  `json:"mode"`
	Trajectories            int     `json:"trajectories"`
	Calls                   int64   `json:"calls"`
	PromptTokens            int64   `json:"prompt_tokens"`
	CompletionTokens        int64   `json:"completion_tokens"`
	PromptTokensPerCall     float64 `json:"prompt_tokens_per_call"`
	CompletionTokensPerCall float64 `json:"completion_tokens_per_call"`
	WallSeconds             float64 `json:"wall_seconds"`
	// InferenceSeconds is the time in which at least one call was at the engine.
	InferenceSeconds float64 `json:"inference_seconds"`
	SecondsPerCall   float64 `json:"seconds_per_call"`
	// InFlight is how many calls were at the engine on average, while there were any.
	InFlight           float64 `json:"in_flight"`
	InputTPS           float64 `json:"input_tps"` // over wall time, as is OutputTPS
	OutputTPS          float64 `json:"output_tps"`
	InferenceOutputTPS float64 `json:"inference_output_tps"` // over InferenceSeconds
}

// GameResult is the rows of a measurement, and what they were measured with.
type GameResult struct {
	Config GameConfig
	Model  string
	Rows   []GameRow
}

// Game plays the same group twice: one call at a time, as a loop over games and powers does, and with all games and
// all powers of a phase at once, as the service does.
func Game(ctx context.Context, cfg GameConfig) (GameResult, error) {
	if err := cfg.Validate(); err != nil {
		return GameResult{}, err
	}
	engines := cfg.engines()
	f, err := openFleet(ctx, engines, 1)
	if err != nil {
		return GameResult{}, err
	}
	defer f.stop()
	res := GameResult{Config: cfg, Model: f.model}
	res.Config.Speed = engines.Speed
	for pass, mode := range []struct {
		name     string
		inFlight int
	}{
		{"sequential", 1},
		{"concurrent", cfg.Samples * powers},
	} {
		engines.say("playing %d games, %s", cfg.Samples, mode.name)
		row, err := playGroup(ctx, engines, f, pass, mode.inFlight)
		if err != nil {
			return res, fmt.Errorf("%s: %w", mode.name, err)
		}
		row.Mode = mode.name
		res.Rows = append(res.Rows, row)
	}
	return res, nil
}

// powers is how many can be asked at once in a game.
const powers = 7

// playGroup plays a group with at most so many calls in flight.
func playGroup(ctx context.Context, cfg Config, f *fleet, pass, inFlight int) (GameRow, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg.Concurrency = inFlight
	timed := &stopwatch{Engine: &requestRecording{engine: f.engines[0], pass: pass}}
	d := live.New(live.Config{Clients: func(rollout.Engine) live.Engine { return timed }, Worker: string(runName)})
	w, err := newWorkload(cfg, f.model, d)
	if err != nil {
		return GameRow{}, err
	}
	var g errgroup.Group
	g.Go(func() error { return d.Run(ctx) })
	d.SetEngines(f.listed(inFlight))
	began := time.Now()
	episodes, err := w.whole(ctx, inFlight == 1)
	wall := time.Since(began)
	cancel()
	if err = errors.Join(err, g.Wait()); err != nil {
		return GameRow{}, err
	}
	return gameRow(episodes, wall.Seconds()*cfg.Speed, timed.atWork.Seconds()*cfg.Speed,
		timed.calls.Seconds()*cfg.Speed), nil
}

// whole plays one group to its end: all games side by side, or one after the other.
func (w *workload) whole(ctx context.Context, oneByOne bool) ([]rollout.Episode, error) {
	episodes := make([]rollout.Episode, w.samples)
	g, ctx := errgroup.WithContext(ctx)
	if oneByOne {
		g.SetLimit(1)
	}
	for sample := range w.samples {
		g.Go(func() (err error) {
			episodes[sample], err = w.game(ctx, rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: runName}, Sample: sample})
			return err
		})
	}
	return episodes, g.Wait()
}

// gameRow sums up a group. Seconds: of everything, with a call at the engine, and of the calls added up.
func gameRow(episodes []rollout.Episode, wall, inference, calls float64) GameRow {
	var u rollout.Usage
	r := GameRow{WallSeconds: round(wall, 3), InferenceSeconds: round(inference, 3)}
	for _, ep := range episodes {
		r.Trajectories += len(ep.Trajectories)
		u = u.Add(ep.Usage)
	}
	n := float64(u.Requests)
	r.Calls, r.PromptTokens, r.CompletionTokens = u.Requests, u.InputTokens, u.OutputTokens
	r.PromptTokensPerCall = round(ratio(float64(u.InputTokens), n), 1)
	r.CompletionTokensPerCall = round(ratio(float64(u.OutputTokens), n), 1)
	r.SecondsPerCall = round(ratio(calls, n), 4)
	r.InFlight = round(ratio(calls, inference), 2)
	r.InputTPS = round(ratio(float64(u.InputTokens), wall), 1)
	r.OutputTPS = round(ratio(float64(u.OutputTokens), wall), 1)
	r.InferenceOutputTPS = round(ratio(float64(u.OutputTokens), inference), 1)
	return r
}

// stopwatch measures when calls are at an engine.
type stopwatch struct {
	live.Engine

	mu     sync.Mutex
	open   int
	since  time.Time     // open became positive
	atWork time.Duration // with at least one call
	calls  time.Duration // added up
}

// Complete passes a call on.
func (s *stopwatch) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	began := s.enter()
	defer s.leave(began)
	return s.Engine.Complete(ctx, req)
}

func (s *stopwatch) enter() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.open == 0 {
		s.since = now
	}
	s.open++
	return now
}

func (s *stopwatch) leave(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.calls += now.Sub(began)
	if s.open--; s.open == 0 {
		s.atWork += now.Sub(s.since)
	}
}
