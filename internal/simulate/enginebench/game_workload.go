package enginebench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/game/diplomacyenv"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// RunName stands before the number of every group.
const RunName = rollout.RunName("bench")

// workload plays groups of games with a policy and keeps count.
type workload struct {
	env     *diplomacyenv.Env
	policy  episode.Policy
	model   string
	samples int

	mu     sync.Mutex
	count  played
	next   rollout.GroupSeq
	groups chan struct{} // takes a token per finished group
}

// played is what a workload has done so far.
type played struct {
	calls     int64 // answered
	games     int64 // finished
	gameCalls int64 // of finished games
}

func newWorkload(cfg Config, model string, policy episode.Policy) (*workload, error) {
	options, err := json.Marshal(map[string]int{"horizon_years": cfg.Years})
	if err != nil {
		return nil, err
	}
	env, err := diplomacyenv.FromOptions(options)
	if err != nil {
		return nil, fmt.Errorf("games: %w", err)
	}
	return &workload{env: env, policy: policy, model: model, samples: cfg.Samples, groups: make(chan struct{}, 1024)}, nil
}

// Complete passes a request on and counts the answer.
func (w *workload) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	c, err := w.policy.Complete(ctx, req)
	if err == nil {
		w.mu.Lock()
		w.count.calls++
		w.mu.Unlock()
	}
	return c, err
}

func (w *workload) played() played {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// keep keeps so many groups in play until the context ends, which is no error, or a game fails.
func (w *workload) keep(ctx context.Context, groups int) error {
	g, playing := errgroup.WithContext(ctx)
	for range groups {
		g.Go(func() error {
			for {
				if err := w.group(playing); err != nil {
					return err
				}
				select {
				case w.groups <- struct{}{}:
				default: // nobody waits for so many
				}
			}
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// group plays the next group, its games side by side.
func (w *workload) group(ctx context.Context) error {
	w.mu.Lock()
	seq := w.next
	w.next++
	w.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	for sample := range w.samples {
		g.Go(func() error {
			_, err := w.game(ctx, rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: RunName, Seq: seq}, Sample: sample})
			return err
		})
	}
	return g.Wait()
}

// game plays one game as a worker does, but for the checkpoints.
func (w *workload) game(ctx context.Context, ref rollout.EpisodeRef) (rollout.Episode, error) {
	seed := int64(ref.Seq) + 1
	scenario, err := w.env.Scenario(seed)
	if err != nil {
		return rollout.Episode{}, fmt.Errorf("game %s: %w", ref, err)
	}
	player := episode.Player{Environment: w.env, Policy: w, Journal: unkept{}, Beat: func(int, string) {}, Now: time.Now}
	ep, _, err := player.Play(ctx, episode.Plan{
		Ref: ref, Attempt: 1, Model: w.model, Version: 1, Seed: seed,
		Sampling: rollout.Sampling{Temperature: 0.8, TopP: 1, MaxTokens: 120},
		Timeouts: runspec.Timeouts{Completion: rollout.Duration(10 * time.Minute), Episode: rollout.Duration(24 * time.Hour)},
	}, scenario, nil)
	if err != nil {
		return ep, err
	}
	w.mu.Lock()
	w.count.games++
	w.count.gameCalls += ep.Usage.Requests
	w.mu.Unlock()
	return ep, nil
}

// unkept is a journal of games that nobody resumes.
type unkept struct{}

func (unkept) Save(context.Context, rollout.Checkpoint) error { return nil }
