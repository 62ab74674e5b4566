package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/trials/crashtest/outside"
	"github.com/millrace/millrace/trials/stack"
)

// model is the base model that simulated engines serve.
const model = "Qwen/Qwen2.5-7B-Instruct"

// outcome is all that was observed of one run.
type outcome struct {
	plan       plan
	journal    []trained
	events     []event
	batches    map[rollout.Step]*seenBatch
	records    []steprecord.StepRecord // at the end
	account    buffer.Account          // at the end
	waits      waits                   // at the end
	said       []outside.Line          // by programs
	older      []exchange              // when Redis was made to come back older
	generated  func(trajectory string) []generation
	tally               // of what the watch did
	violations []string // seen while it ran
	lost       bool     // Redis was emptied meanwhile
	cut        bool     // it was deleted before its end
	// lostBatches is the steps whose batch went with a Redis that came back older, and rolledBack whether one did.
	lostBatches map[rollout.Step]bool
	rolledBack  bool
	repairs     int // of the account
}

// trained is one line of the trainer's journal.
type trained struct {
	Step         int64    `json:"step"`
	Generation   int64    `json:"generation"`
	WallSec      float64  `json:"wall_seconds"`
	Groups       []int64  `json:"groups"`
	Trajectories []string `json:"trajectories"`
}

// event is something that a trainer was granted or refused, as it says itself.
type event struct {
	Event      string `json:"event"`
	PID        int    `json:"pid"` // of who is attached
	Generation int64  `json:"generation"`
	Step       int64  `json:"step"`
	ResumeFrom *int64 `json:"resume_from"`
	Version    int64  `json:"policy_version"`
	Path       string `json:"path"`
	Digest     string `json:"digest"`
}

// What trainers tell.
const (
	attached   = "attached"
	publishing = "publishing"
	recorded   = "recorded"
	fenced     = "fenced"
)

// Patience of the harness: a run in which no step is completed for stuckAfter, though Temporal is there, goes against
// a promise. After the faults a run has as long again.
const stuckAfter = 2 * time.Minute

// train plays one run with the demo trainer, to its end or until it is deleted, and gathers what was observed.
func (s *service) train(ctx context.Context, w *watch, in *injector, p plan) (outcome, error) {
	client, err := s.Client()
	if err != nil {
		return outcome{}, err
	}
	if err := s.serveEnvironments(&p); err != nil {
		return outcome{}, err
	}
	spec := p.spec()
	if err := stack.Await(ctx, s.cfg.patient(stuckAfter), func(ctx context.Context) error {
		return client.StartRun(ctx, spec)
	}); err != nil {
		return outcome{}, fmt.Errorf("start it: %w", err)
	}
	if err := s.Spawn(trainerOf(p), true, s.cfg.Lab, s.trainerArgs(p)...); err != nil {
		return outcome{}, err
	}
	if err := s.startPrograms(p); err != nil {
		return outcome{}, err
	}
	w.begin(p)
	in.returned(ctx)
	o := outcome{plan: p, lost: s.cfg.Lose, cut: p.cut()}
	to := spec.Steps
	if o.cut {
		to /= 2
	}
	stuck := s.follow(ctx, w, to)
	if err := ctx.Err(); err != nil {
		return o, err
	}
	if stuck != "" {
		o.violations = append(o.violations, stuck)
	}
	if !o.cut {
		if err := s.gather(ctx, w, &o); err != nil {
			return o, err
		}
	}
	if !p.last() {
		in.end(ctx, p)
	}
	s.endPrograms(p)
	if o.journal, err = readLines[trained](p.file("journals", ".jsonl")); err != nil {
		return o, err
	}
	if o.events, err = readLines[event](p.file("events", ".jsonl")); err != nil {
		return o, err
	}
	if o.said, err = readLines[outside.Line](p.file("programs", ".jsonl")); err != nil {
		return o, err
	}
	o.violations = append(o.violations, s.leftSessions(ctx)...)
	o.older = in.older()
	o.generated = s.recorder.generated
	w.mu.Lock()
	defer w.mu.Unlock()
	o.batches, o.account, o.tally = w.batches, w.account, w.tally
	o.lostBatches, o.rolledBack, o.repairs = w.lostBatches, w.era > 1, max(0, int(w.era-1))
	o.violations = append(o.violations, w.violations...)
	return o, nil
}

// gather claims everything once more and reads the records of a run that is done.
func (s *service) gather(ctx context.Context, w *watch, o *outcome) error {
	if !s.cfg.Lose {
		w.claimAll(ctx, o.plan)
	}
	err := s.readRecords(ctx, w, o)
	if err != nil {
		return fmt.Errorf("read its records: %w", err)
	}
	if !s.cfg.Lose {
		o.waits, err = s.waited(ctx, o.plan.id())
	}
	return err
}

// readRecords reads the records of a run. Where Redis has come back older after the last step, it waits until that is
// repaired: a step that was completed stays so, though its record may be lost.
func (s *service) readRecords(ctx context.Context, w *watch, o *outcome) error {
	_, account := w.now()
	steps := min(o.plan.cfg.Steps, int(account.NextStep))
	if s.cfg.Lose {
		steps = 0
	}
	read := false
	err := stack.Await(ctx, s.cfg.patient(stuckAfter), func(ctx context.Context) error {
		records, err := s.store.AllSteps(ctx, o.plan.id(), 0, o.plan.cfg.Steps)
		if err != nil {
			return err
		}
		o.records, read = records, true
		if missing := unrecorded(records, steps); len(missing) > 0 {
			return fmt.Errorf("steps %d are not completed any more", missing)
		}
		return nil
	})
	if read {
		return ctx.Err() // what is missing is for the check to say
	}
	return err
}

// unrecorded is the steps of a run that are not completed by its records. A record that was lost says that its step is.
func unrecorded(records []steprecord.StepRecord, steps int) (missing []rollout.Step) {
	done := map[rollout.Step]bool{}
	for _, r := range records {
		done[r.Step] = r.Done
	}
	for k := range rollout.Step(steps) {
		if !done[k] {
			missing = append(missing, k)
		}
	}
	return missing
}

// trainerOf is the name of a run's trainer among the children.
func trainerOf(p plan) string { return "trainer-" + p.label() }

// trainerArgs is the command line of a run's trainers, the first one and its successors.
func (s *service) trainerArgs(p plan) []string {
	args := []string{
		"trainer", p.run(), "--server", "http://" + s.links["trainer-server"].address(),
		"--adapters", p.spec().Adapters.PathPrefix, "--journal", p.file("journals", ".jsonl"), "--events",
		p.file("events", ".jsonl"), "--train", p.cfg.Train.String(),
	}
	if p.lives > 1 {
		args = append(args, "--weights", fmt.Sprint(p.training()))
	}
	if p.cfg.Checkpoint > 0 {
		args = append(args, "--checkpoints", p.file("checkpoints", ""), "--checkpoint-every", fmt.Sprint(p.cfg.Checkpoint))
	}
	return args
}

// follow waits until so many steps are completed; it answers why not.
func (s *service) follow(ctx context.Context, w *watch, steps int) (stuck string) {
	last, since := rollout.Step(-1), time.Now()
	for retry.Pause(ctx, 200*time.Millisecond) == nil {
		_, account := w.now()
		if int(account.NextStep) >= steps {
			return ""
		}
		if account.NextStep != last || w.temporalUnavailable() {
			last, since = account.NextStep, time.Now()
		}
		if bound := s.cfg.patient(stuckAfter); time.Since(since) > bound {
			return fmt.Sprintf("stuck: step %d was not completed within %s: %+v", last, bound, account)
		}
	}
	return ""
}

// claimAll claims every step that is kept once more, whole and in shares: a completed step stays what it was.
func (w *watch) claimAll(ctx context.Context, p plan) {
	_, account := w.now()
	for step := max(0, account.ClaimedTo-rollout.Step(p.retain)); step < account.ClaimedTo; step++ {
		err := stack.Await(ctx, w.service.cfg.patient(stuckAfter), func(ctx context.Context) error {
			_, account := w.now()
			if err := w.claim(ctx, p.run(), step, account.Generation); err != nil {
				if w.mayBeLost(step) && strings.Contains(err.Error(), string(rollout.BatchLost)) {
					return nil
				}
				return err
			}
			return w.claimShares(ctx, p.run(), step, account.Generation, worldOf(int64(step)))
		})
		if err != nil {
			w.mu.Lock()
			w.complain("step %d cannot be claimed again: %v", step, err)
			w.mu.Unlock()
		}
	}
}

// mayBeLost reports whether Redis came back without the batch of a step.
func (w *watch) mayBeLost(step rollout.Step) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lostBatches[step]
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
