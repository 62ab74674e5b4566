package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/rollout"
)

// model is the base model that simulated engines serve.
const model = "Qwen/Qwen2.5-7B-Instruct"

// outcome is all that was observed of one run.
type outcome struct {
	plan       plan
	journal    []trained
	events     []event
	batches    map[rollout.Step]*seenBatch
	records    []rollout.StepRecord // at the end
	account    buffer.Account       // at the end
	tally                           // of what the watch did
	violations []string             // seen while it ran
	lost       bool                 // Redis was emptied meanwhile
}

// trained is one line of the trainer's journal.
type trained struct {
	Step         int64    `json:"step"`
	Epoch        int64    `json:"epoch"`
	WallSec      float64  `json:"wall_seconds"`
	Groups       []int64  `json:"groups"`
	Trajectories []string `json:"trajectories"`
}

// event is something that a trainer was granted or refused, as it says itself.
type event struct {
	Event      string `json:"event"`
	Epoch      int64  `json:"epoch"`
	Step       int64  `json:"step"`
	ResumeFrom *int64 `json:"resume_from"`
}

// What trainers tell.
const (
	attached = "attached"
	recorded = "recorded"
	fenced   = "fenced"
)

// Patience of the harness: a run in which no step is completed for stuckAfter, though Temporal is there, goes against a promise.
// After the faults a run has as long again.
const stuckAfter = 2 * time.Minute

// train plays one run to its end, with the demo trainer, and gathers what was observed.
func (s *stack) train(ctx context.Context, w *watch, p plan) (outcome, error) {
	client, err := cli.NewClient("http://"+s.server, "", s.http)
	if err != nil {
		return outcome{}, err
	}
	spec := p.spec()
	if err := await(ctx, stuckAfter, func(ctx context.Context) error { return client.StartRun(ctx, spec) }); err != nil {
		return outcome{}, fmt.Errorf("start it: %w", err)
	}
	if err := s.start(trainerOf(p.run()), true, s.cfg.Millrace, s.trainerArgs(p)...); err != nil {
		return outcome{}, err
	}
	w.begin(p)
	o := outcome{plan: p, lost: s.cfg.Lose}
	stuck := s.follow(ctx, w, spec)
	if err := ctx.Err(); err != nil {
		return o, err
	}
	if stuck != "" {
		o.violations = append(o.violations, stuck)
	}
	if !s.cfg.Lose {
		w.claimAll(ctx, p)
	}
	err = await(ctx, stuckAfter, func(ctx context.Context) (err error) {
		o.records, err = s.store.Steps(ctx, spec.Name, 0, spec.Steps)
		return err
	})
	if err != nil {
		return o, fmt.Errorf("read its records: %w", err)
	}
	if o.journal, err = readLines[trained](p.file("journals", ".jsonl")); err != nil {
		return o, err
	}
	if o.events, err = readLines[event](p.file("events", ".jsonl")); err != nil {
		return o, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o.batches, o.account, o.tally = w.batches, w.account, w.tally
	o.violations = append(o.violations, w.violations...)
	return o, nil
}

// trainerOf is the name of a run's trainer among the children.
func trainerOf(run string) string { return "trainer-" + run }

// trainerArgs is the command line of a run's trainers, the first one and its successors.
func (s *stack) trainerArgs(p plan) []string {
	args := []string{
		"chaos", "trainer", p.run(), "--server", "http://" + s.links["trainer-server"].address(),
		"--adapters", p.spec().Adapters.PathPrefix, "--journal", p.file("journals", ".jsonl"), "--events", p.file("events", ".jsonl"),
	}
	if p.cfg.Checkpoint > 0 {
		args = append(args, "--checkpoints", p.file("checkpoints", ""), "--checkpoint-every", fmt.Sprint(p.cfg.Checkpoint))
	}
	return args
}

// follow waits until every step is completed; it answers why not.
func (s *stack) follow(ctx context.Context, w *watch, spec rollout.Spec) (stuck string) {
	last, since := rollout.Step(-1), time.Now()
	for pause(ctx, 200*time.Millisecond) == nil {
		_, account := w.now()
		if int(account.NextStep) >= spec.Steps {
			return ""
		}
		if account.NextStep != last || w.isAway() {
			last, since = account.NextStep, time.Now()
		}
		if time.Since(since) > stuckAfter {
			return fmt.Sprintf("stuck: step %d was not completed within %s: %+v", last, stuckAfter, account)
		}
	}
	return ""
}

// claimAll claims every step once more, whole and in shares: a completed step stays what it was.
func (w *watch) claimAll(ctx context.Context, p plan) {
	_, account := w.now()
	for step := range account.ClaimedTo {
		err := await(ctx, stuckAfter, func(ctx context.Context) error {
			_, account := w.now()
			if err := w.claim(ctx, p.run(), step, account.Epoch); err != nil {
				return err
			}
			return w.claimShares(ctx, p.run(), step, account.Epoch, worldOf(int64(step)))
		})
		if err != nil {
			w.mu.Lock()
			w.complain("step %d cannot be claimed again: %v", step, err)
			w.mu.Unlock()
		}
	}
}

// readLines reads a file of JSON lines; one that was never written is empty.
func readLines[T any](path string) ([]T, error) {
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what trainers wrote: %w", err)
	}
	var lines []T
	for line := range bytes.Lines(b) {
		var t T
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		lines = append(lines, t)
	}
	return lines, nil
}
