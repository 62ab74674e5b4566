package bufferload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/game/diplomacyenv"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// recordedGame is what a worker tells the buffer of a game.
type recordedGame struct {
	phases []recordedPhase
	end    rollout.Episode
	state  []byte
}

// recordedPhase is its answers and the game after it.
type recordedPhase struct {
	answers []agentAnswer
	after   rollout.Checkpoint
}

type agentAnswer struct {
	agent  string
	answer buffer.Answer
}

// recording plays a game and keeps what is told of it.
type recording struct {
	policy episode.Policy
	engine rollout.EngineID

	mu      sync.Mutex
	answers []agentAnswer
	game    recordedGame
}

// recordGroup plays the games of one group, and returns them with the scenario that they begin with. The engine is the
// one that answers at once.
func recordGroup(ctx context.Context, phases, samples int) (scenario []byte, games []recordedGame, err error) {
	engine, err := benchservice.StartEngine(0, nil)
	if err != nil {
		return nil, nil, err
	}
	defer engine.Stop()
	client, err := vllm.New(vllm.Config{BaseURL: engine.URL})
	if err != nil {
		return nil, nil, err
	}
	options, _ := json.Marshal(map[string]int{"horizon_years": phases / benchservice.PhasesPerYear}) // never fails
	env, err := diplomacyenv.FromOptions(options)
	if err != nil {
		return nil, nil, fmt.Errorf("games: %w", err)
	}
	if scenario, err = env.Scenario(1); err != nil {
		return nil, nil, fmt.Errorf("games: %w", err)
	}
	for sample := range samples {
		r := &recording{policy: client, engine: rollout.EngineID(fmt.Sprintf("engine-%d", sample))}
		if err := r.play(ctx, env, scenario, sample); err != nil {
			return nil, nil, fmt.Errorf("play a game to tell of: %w", err)
		}
		games = append(games, r.game)
	}
	return scenario, games, nil
}

func (r *recording) play(ctx context.Context, env episode.Environment, scenario []byte, sample int) (err error) {
	player := episode.Player{Environment: env, Policy: r, Journal: r, Beat: func(int, string) {}, Now: time.Now}
	plan := episode.Plan{
		Ref: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "recorded"}, Sample: sample}, Attempt: 1,
		Model: benchservice.Model, Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 256},
		Timeouts: runspec.Timeouts{Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(24 * time.Hour)},
	}
	r.game.end, r.game.state, err = player.Play(ctx, plan, scenario, nil)
	return err
}

// Complete asks, and keeps the answer of a learner as a worker does.
func (r *recording) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	c, err := r.policy.Complete(ctx, req)
	if err != nil {
		return c, err
	}
	c.Engine = r.engine
	r.mu.Lock()
	defer r.mu.Unlock()
	// As long as a worker's key of a request.
	key := fmt.Sprintf("%016x%016x", len(r.game.phases), len(r.answers))
	r.answers = append(r.answers, agentAnswer{req.Agent, buffer.Answer{Key: key, Completion: c}})
	return c, nil
}

// Save keeps a phase. The player goes on appending to what it gives.
func (r *recording) Save(_ context.Context, c rollout.Checkpoint) error {
	c.Episode.Trajectories = slices.Clone(c.Episode.Trajectories)
	r.game.phases = append(r.game.phases, recordedPhase{r.answers, c})
	r.answers = nil
	return nil
}

// retold is a recorded game under another name. Its phases share nothing that changes.
type retold struct {
	*recordedGame
	ref rollout.EpisodeRef
	ids []string // of the trajectories of the end
}

func (g *recordedGame) as(ref rollout.EpisodeRef) retold {
	t := retold{recordedGame: g, ref: ref}
	for i := range g.end.Trajectories {
		t.ids = append(t.ids, ref.TrajectoryID(g.end.Trajectories[i].Agent))
	}
	return t
}

// phase is the game after a phase.
func (t retold) phase(i int) rollout.Checkpoint {
	cp := t.phases[i].after
	cp.Episode = t.named(cp.Episode)
	return cp
}

// finished is its end, which came now.
func (t retold) finished(began, now time.Time) rollout.Episode {
	ep := t.named(t.end)
	ep.StartedAt, ep.FinishedAt = began, now
	return ep
}

// named is an episode of the recorded game as this one's. Trajectories come in the same order at all times.
func (t retold) named(ep rollout.Episode) rollout.Episode {
	ep.Ref = t.ref
	ep.Trajectories = slices.Clone(ep.Trajectories)
	for i := range ep.Trajectories {
		ep.Trajectories[i].ID, ep.Trajectories[i].Sample = t.ids[i], t.ref.Sample
	}
	return ep
}
