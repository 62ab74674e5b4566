package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/rollout"
)

// model is the base model that simulated engines serve.
const model = "Qwen/Qwen2.5-7B-Instruct"

// outcome is all that was observed of one run.
type outcome struct {
	run        string
	cfg        RunConfig
	journal    []trained
	batches    map[rollout.Step]*seenBatch
	account    buffer.Account // at the end
	claims     int
	violations []string // seen while it ran
	lost       bool     // Redis was emptied meanwhile
}

// trained is one line of the trainer's journal.
type trained struct {
	Step         int64    `json:"step"`
	Epoch        int64    `json:"epoch"`
	Groups       []int64  `json:"groups"`
	Trajectories []string `json:"trajectories"`
}

// Patience of the harness: a run in which no step is completed for stuckAfter goes against a promise. After the faults a run has
// as long again.
const stuckAfter = 2 * time.Minute

// train plays one run to its end, with the demo trainer, and gathers what was observed.
func (s *stack) train(ctx context.Context, w *watch, run string, injecting context.Context) (outcome, error) {
	client, err := cli.NewClient("http://"+s.server, "", s.http)
	if err != nil {
		return outcome{}, err
	}
	spec := s.spec(run)
	if err := await(ctx, stuckAfter, func(ctx context.Context) error { return client.StartRun(ctx, spec) }); err != nil {
		return outcome{}, fmt.Errorf("start it: %w", err)
	}
	journal := filepath.Join(s.cfg.Dir, "journals", run+".jsonl")
	name := "trainer-" + run
	err = s.start(name, true, s.cfg.Millrace, "trainer", "demo", run, "--server", "http://"+s.server,
		"--adapters", filepath.Join(s.cfg.Dir, "adapters"), "--journal", journal)
	if err != nil {
		return outcome{}, err
	}
	w.begin(run)
	o := outcome{run: run, cfg: s.cfg.Run, lost: s.cfg.Lose}
	stuck := s.follow(ctx, w, spec)
	if err := ctx.Err(); err != nil {
		return o, err
	}
	if stuck != "" {
		o.violations = append(o.violations, stuck)
	}
	if !s.cfg.Lose {
		w.claimAll(ctx, run)
	}
	if o.journal, err = readJournal(journal); err != nil {
		return o, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o.batches, o.account, o.claims = w.batches, w.account, w.claims
	o.violations = append(o.violations, w.violations...)
	return o, nil
}

func (s *stack) spec(run string) rollout.Spec {
	c := s.cfg.Run
	return rollout.Spec{
		Name: rollout.RunName(run), Model: model, Steps: c.Steps, Seed: s.cfg.Seed,
		Environment: rollout.Environment{Kind: "tictactoe", Options: json.RawMessage(`{"opening_moves":1}`)},
		Group:       rollout.GroupSpec{Samples: c.Samples, MinSamples: c.Samples},
		Buffer:      rollout.BufferSpec{Depth: c.Depth, GroupsPerStep: c.GroupsPerStep, MaxStaleness: 8, OnStale: rollout.DropStale},
		Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 4},
		Adapters:    rollout.AdapterSpec{Rank: 8, PathPrefix: filepath.Join(s.cfg.Dir, "adapters")},
		Dispatch:    rollout.Dispatch{Policy: rollout.LeastTokens},
		Timeouts: rollout.Timeouts{
			Completion: rollout.Duration(10 * time.Second), Episode: rollout.Duration(5 * time.Minute), Heartbeat: rollout.Duration(2 * time.Second),
		},
		Demo: rollout.Demo{Engines: engines, EngineMaxNumSeqs: 64, Speed: 1, Train: rollout.Duration(c.Train)},
	}
}

// follow waits until every step is completed; it answers why not.
func (s *stack) follow(ctx context.Context, w *watch, spec rollout.Spec) (stuck string) {
	last, since := rollout.Step(-1), time.Now()
	for pause(ctx, 200*time.Millisecond) == nil {
		_, account := w.now()
		if int(account.NextStep) >= spec.Steps {
			return ""
		}
		if account.NextStep != last {
			last, since = account.NextStep, time.Now()
		}
		if time.Since(since) > stuckAfter {
			return fmt.Sprintf("stuck: step %d was not completed within %s: %+v", last, stuckAfter, account)
		}
	}
	return ""
}

// claimAll claims every step once more: a completed step stays what it was.
func (w *watch) claimAll(ctx context.Context, run string) {
	_, account := w.now()
	for step := range account.ClaimedTo {
		err := await(ctx, stuckAfter, func(ctx context.Context) error {
			_, account := w.now()
			return w.claim(ctx, run, step, account.Epoch)
		})
		if err != nil {
			w.mu.Lock()
			w.complain("step %d cannot be claimed again: %v", step, err)
			w.mu.Unlock()
		}
	}
}

func readJournal(path string) ([]trained, error) {
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	var lines []trained
	for line := range bytes.Lines(b) {
		var t trained
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, fmt.Errorf("journal %s: %w", path, err)
		}
		lines = append(lines, t)
	}
	return lines, nil
}
