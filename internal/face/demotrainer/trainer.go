// Package demotrainer is the demo trainer: it does all that a real one does except train. It attaches to a run, claims
// the batch of each step, checks it, spends the time that each phase would take, writes a LoRA adapter, publishes
// it and records the step; killed and started again, it goes on at the right step. With Config.Learn it does train: the
// small policy that simulated engines serve (learn_softmax_policy.go).
//
// It uses nothing but the public HTTP API, with JSON types of its own, as a trainer in any language would: it doubles
// as an example and as a check that the API suffices. Start reading at Run, then api_client.go, read_and_check_batch.go
// and write_lora_adapter.go.
package demotrainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Config says which run to train, and how.
type Config struct {
	Server string // URL of the API server
	Token  string // bearer token; empty: none is sent
	Run    string
	// where adapters are written; engines must see it under the same path. Empty: the spec's adapters.path_prefix
	AdapterDir string
	Journal    string // file to which a line per trained step is appended; empty: none
	// Heard, if set, is told what the server granted or refused, or is about to be asked for.
	Heard func(Event) error
	// Checkpoints remembers which steps the weights have learned from: the steps since are trained again. nil: every
	// recorded step is taken to be in the weights.
	Checkpoints Checkpoints
	// Weights is the training that these weights come of. 0: one whose adapters are at paths that their content
	// decides. Others write the adapters of a run's name to the same paths, each with other weights, and replace
	// what an earlier training left there.
	Weights int64

	// The times of the phases, on the modelled hardware. Speed divides them; 0: 1.
	Load, RefLogprobs, Train, Publish time.Duration
	Speed                             float64
	// Learn has it train a policy at LearningRate. Engines must be simulated ones that serve policies.
	Learn        bool
	LearningRate float64
	Rank         int // of the adapters; 0: the spec's adapters.rank

	// Also, if set, is asked at the end of each phase of each step how much longer it takes, for trials of a trainer that
	// misbehaves. A phase that the demo trainer does not have, such as checkpoint, is asked for, too.
	Also func(step int64, phase string) time.Duration

	Log        io.Writer     // a line per step; nil: silence
	HTTPClient *http.Client  // nil: one that keeps its connections
	Patience   time.Duration // how long the server may be unavailable before Run gives up; 0: two minutes
}

// Checkpoints stands for a trainer's saved weights.
type Checkpoints interface {
	// Resume is the first step that the weights saved last have not learned from.
	Resume() int64
	// Save is called after every recorded step, never before, with the first step that is not in the weights: a run
	// cannot be resumed from a step that it has not reached.
	Save(next, steps int64) error
}

// Event is something that the server granted or refused, or is about to be asked for.
type Event struct {
	Event      string `json:"event"`         // attached, publishing, recorded or fenced
	PID        int    `json:"pid,omitempty"` // of the process that is attached
	Generation int64  `json:"generation"`
	Step       int64  `json:"step,omitempty"`        // the first one to do, or the one published or recorded
	ResumeFrom *int64 `json:"resume_from,omitempty"` // as asked for
	Version    int64  `json:"policy_version,omitempty"`
	Path       string `json:"path,omitempty"`   // of the version's adapter
	Digest     string `json:"digest,omitempty"` // SHA-256 of its weights
}

// Run trains until the run is over, which is no error, or ctx is done.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	c, err := newClient(cfg)
	if err != nil {
		return err
	}
	journal, err := openJournal(cfg.Journal)
	if err != nil {
		return err
	}
	defer journal.Close()
	if cfg.Heard == nil {
		cfg.Heard = func(Event) error { return nil }
	}
	t := &trainer{cfg: cfg, client: c, journal: journal}
	err = t.run(ctx)
	var refused *apiclient.Problem
	if errors.As(err, &refused) && refused.Code() == rollout.Fenced {
		err = errors.Join(err, cfg.Heard(Event{Event: "fenced", Generation: t.generation}))
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused) && refused.Code() == rollout.RunOver:
		t.say("run %s is over; nothing is left to train (%s)", cfg.Run, refused.Detail)
		return nil
	case err != nil:
		return fmt.Errorf("train %s: %w%s", cfg.Run, err, t.advice(refused))
	}
	return nil
}

// advice is what to do about a refusal that ends a trainer which was attached, if that is not plain.
func (t *trainer) advice(refused *apiclient.Problem) string {
	if refused == nil || t.generation == 0 {
		return ""
	}
	switch refused.Code() {
	case rollout.NoSuchRun:
		return "\n  it was there when this trainer attached: it was deleted, or Redis has lost it, and its workflow " +
			"with it; a run whose workflow goes on is back within a minute of Temporal and a worker: start this trainer " +
			"again then"
	case rollout.Fenced:
		return "\n  another trainer has taken over; where none was started, Redis came back without what this one had " +
			"done: start it again, and it goes on at the run's step"
	}
	return ""
}

// trainer is one trainer process.
type trainer struct {
	cfg     Config
	client  *client
	journal *journal

	generation int64
	version    int64    // newest published
	learner    *Learner // nil: it only seems to train
	spec       runspec.Spec
	dir        string
}

func (t *trainer) run(ctx context.Context) error {
	var resume *int64
	if t.cfg.Checkpoints != nil {
		saved := t.cfg.Checkpoints.Resume()
		resume = &saved
	}
	next, err := t.attach(ctx, resume)
	if err != nil {
		return err
	}
	for step := next; ; step++ {
		err := t.step(ctx, step)
		if batchLost(err) && t.cfg.Checkpoints == nil {
			// The weights have learned from what is recorded and nothing else: another batch does as well.
			t.say("step %3d  its batch is lost, asking for another one: %v", step, err)
			if step, err = t.attach(ctx, &step); err == nil {
				err = t.step(ctx, step)
			}
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
}

func batchLost(err error) bool {
	var refused *apiclient.Problem
	return errors.As(err, &refused) && refused.Code() == rollout.BatchLost
}

// attach announces this process, and answers the first step that it has to do.
func (t *trainer) attach(ctx context.Context, resume *int64) (int64, error) {
	attached, err := t.client.attach(ctx, resume)
	if err != nil {
		return 0, fmt.Errorf("attach: %w", err)
	}
	t.generation, t.version = attached.Generation, attached.PolicyVersion
	if err := t.cfg.Heard(Event{Event: "attached", PID: os.Getpid(), Generation: t.generation, Step: attached.NextStep,
		ResumeFrom: resume}); err != nil {
		return 0, err
	}
	t.spec = attached.Spec
	t.spec.Adapters.Rank = cmp.Or(t.cfg.Rank, t.spec.Adapters.Rank)
	if t.dir, err = t.adapterDir(); err != nil {
		return 0, err
	}
	t.say("attached to %s as generation %d at step %d of %d, policy version %d", t.cfg.Run, t.generation,
		attached.NextStep, t.spec.Steps, t.version)
	if t.cfg.Learn {
		if t.learner, err = resumeLearner(t.cfg.LearningRate, t.spec, t.dir, attached.NextStep); err != nil {
			return 0, err
		}
	}
	return attached.NextStep, nil
}

// adapterDir is where adapters are written, absolute because engines read it, too.
func (t *trainer) adapterDir() (string, error) {
	dir := cmp.Or(t.cfg.AdapterDir, t.spec.Adapters.PathPrefix)
	if dir == "" {
		return "", errors.New("no folder for adapters: name one, or set adapters.path_prefix in the run's spec")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("adapter folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("adapter folder: %w", err)
	}
	return dir, nil
}

// step trains one step. Its phases follow one another, so they add up to its wall time.
func (t *trainer) step(ctx context.Context, step int64) error {
	clock := newStopwatch()
	batch, sum, err := t.obtain(ctx, clock, step)
	if err == nil {
		err = t.also(ctx, clock, step, "wait")
	}
	if err != nil {
		return err
	}
	if err := t.pretend(ctx, clock, "load", t.cfg.Load); err != nil {
		return err
	}
	metrics := sum.metrics()
	for _, phase := range []struct {
		name string
		time time.Duration
	}{{"ref_logprobs", t.cfg.RefLogprobs}, {"train", t.cfg.Train}} {
		if phase.name == "train" && t.learner != nil {
			if metrics["fresh_ratio_error"], err = t.learner.learn(batch); err != nil {
				return err
			}
		}
		if err := t.pretend(ctx, clock, phase.name, phase.time); err != nil {
			return err
		}
		if err := t.also(ctx, clock, step, phase.name); err != nil {
			return err
		}
	}
	if err := t.publish(ctx, step); err != nil {
		return err
	}
	if err := t.pretend(ctx, clock, "publish", t.cfg.Publish); err != nil {
		return err
	}
	for _, phase := range []string{"publish", "checkpoint"} {
		if err := t.also(ctx, clock, step, phase); err != nil {
			return err
		}
	}
	report := report{Generation: t.generation, WallSec: clock.wall().Seconds(), Phases: clock.seconds(),
		Metrics: metrics}
	if err := t.journal.write(entryOf(step, t.version, report, batch)); err != nil {
		return err
	}
	if err := t.client.record(ctx, step, report); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := t.cfg.Heard(Event{Event: "recorded", Generation: t.generation, Step: step}); err != nil {
		return err
	}
	if t.cfg.Checkpoints != nil {
		if err := t.cfg.Checkpoints.Save(step+1, int64(t.spec.Steps)); err != nil {
			return err
		}
	}
	t.say("step %3d  %s  %s  v%d", step, clock, sum, t.version)
	return nil
}

// obtain waits for the step's batch, reads it, and refuses one that must not be trained on. An answer that breaks
// off is asked for again: claiming a step again gives the same batch.
func (t *trainer) obtain(ctx context.Context, clock *stopwatch, step int64) (*batch, summary, error) {
	const tries = 5
	var broken error
	for range tries {
		body, err := t.client.claim(ctx, step, t.generation)
		if err != nil {
			return nil, summary{}, fmt.Errorf("claim: %w", err)
		}
		clock.end("wait")
		b, err := readBatch(body)
		body.Close()
		if err == nil {
			sum, err := b.check(t.cfg.Run, step)
			return b, sum, err
		}
		if ctx.Err() != nil {
			return nil, summary{}, ctx.Err()
		}
		t.say("step %3d  the batch broke off, claiming it again: %v", step, err)
		broken = err
	}
	return nil, summary{}, broken
}

// pretend ends a phase when it has lasted as long as the modelled hardware needs for it; what it took already counts.
func (t *trainer) pretend(ctx context.Context, clock *stopwatch, phase string, modelled time.Duration) error {
	rest := time.Duration(float64(modelled)/cmp.Or(t.cfg.Speed, 1)) - clock.lap()
	if rest > 0 {
		if err := retry.Pause(ctx, rest); err != nil {
			return err
		}
	}
	clock.end(phase)
	return nil
}

// also spends what a phase takes longer than it should.
func (t *trainer) also(ctx context.Context, clock *stopwatch, step int64, phase string) error {
	if t.cfg.Also == nil {
		return nil
	}
	longer := t.cfg.Also(step, phase)
	if longer <= 0 {
		return nil
	}
	if err := retry.Pause(ctx, longer); err != nil {
		return err
	}
	clock.end(phase)
	return nil
}

// publish writes and publishes the weights that came of a step. A trainer that died between publishing and
// recording a step finds them published: publishing them again, under the same version from the same path, changes
// nothing. One that resumes from a checkpoint has other weights than those published since, and gives them a new
// version.
func (t *trainer) publish(ctx context.Context, step int64) error {
	version := t.version + 1
	if t.version > step && t.cfg.Checkpoints == nil {
		version = t.version
	}
	name := fmt.Sprintf("%s-v%d", t.cfg.Run, version)
	cfg := adapterConfig(t.spec.Model, t.spec.Adapters.Rank)
	tensors := loraTensors(cfg, version, t.cfg.Weights)
	if t.learner != nil {
		tensors = t.learner.tensors()
	}
	written, err := writeAdapter(t.dir, name, cfg, tensors, t.cfg.Weights)
	if err != nil {
		return fmt.Errorf("write adapter %s: %w", name, err)
	}
	note := Event{Event: "publishing", Generation: t.generation, Step: step, Version: version, Path: written.path,
		Digest: written.digest}
	if err := t.cfg.Heard(note); err != nil {
		return err
	}
	if err := t.client.publish(ctx, t.generation, version, written.path); err != nil {
		return fmt.Errorf("publish version %d: %w", version, err)
	}
	t.version = version
	return nil
}

func (t *trainer) say(format string, args ...any) {
	fmt.Fprintf(t.cfg.Log, format+"\n", args...) // a log that cannot be written stops no training
}
