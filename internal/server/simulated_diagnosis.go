package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/plan"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runrecord"
	"github.com/millrace/millrace/internal/sim/calibration"
)

const (
	// patience is how long a diagnosis waits for a simulation of the run: a small one is ready by then. One that is not
	// is ready for a later diagnosis, and this one has the replay.
	patience = 500 * time.Millisecond
	// mostRequests bounds the completions that are simulated for the diagnosis of one record: some 20 s of a processor.
	mostRequests = 1_500_000
	// simulatedSteps is about how many steps are simulated for one record: the calibration, and each change.
	simulatedSteps = 1000
	// keptRecords is of how many runs the latest simulation is kept.
	keptRecords = 64
)

// simulatedRuns calibrates simulations of runs for their diagnoses, one after another, and keeps them until their runs
// have gone on.
type simulatedRuns struct {
	record   readRecord
	simulate plan.Simulate
	log      *slog.Logger

	mu   sync.Mutex
	kept map[rollout.RunName]*simulatedRun
	jobs chan *simulatedRun
}

// readRecord reads what a simulation is calibrated from.
type readRecord func(context.Context, rollout.RunName, []rollout.StepRecord) (*runrecord.Record, error)

// simulatedRun is the simulation of one record.
type simulatedRun struct {
	key       string
	input     diagnosis.Input
	ready     chan struct{}   // closed when the predictor is there, or is known not to come
	predictor *plan.Predictor // nil: the record does not determine one
}

func newSimulatedRuns(record readRecord, simulate plan.Simulate, log *slog.Logger) *simulatedRuns {
	return &simulatedRuns{record: record, simulate: simulate, log: log, kept: map[rollout.RunName]*simulatedRun{},
		jobs: make(chan *simulatedRun, 1)}
}

// diagnose is the diagnosis of a run, by the simulation of its record if that is known in time.
func (s *simulatedRuns) diagnose(ctx context.Context, in diagnosis.Input) diagnosis.Report {
	report := diagnosis.Diagnose(in)
	if report.Replay == nil { // nothing is predicted of a run that does not wait
		return report
	}
	job := s.job(in)
	if job == nil {
		return report
	}
	select {
	case <-job.ready:
		if job.predictor == nil {
			return report
		}
		in.Simulator = job.predictor
		return diagnosis.Diagnose(in)
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return report
}

// job is the simulation of a record, begun if it was not; nil: it is too much work, or another run's is going on.
func (s *simulatedRuns) job(in diagnosis.Input) *simulatedRun {
	key, ok := recordKey(in)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.kept[in.Spec.Name]; known != nil && known.key == key {
		return known
	}
	job := &simulatedRun{key: key, input: in, ready: make(chan struct{})}
	select {
	case s.jobs <- job:
	default:
		return nil
	}
	if len(s.kept) >= keptRecords {
		clear(s.kept)
	}
	s.kept[in.Spec.Name] = job
	return job
}

// recordKey tells records apart; false: the record is none that a simulation is made of.
func recordKey(in diagnosis.Input) (string, bool) {
	var requests int64
	last, steps := rollout.Step(-1), int64(0)
	var at time.Time
	for _, r := range in.Records {
		if !r.Done {
			continue
		}
		steps++
		last, at = max(last, r.Step), r.Service.CompletedAt
		for _, g := range r.Service.Groups {
			requests += g.Usage.Requests
		}
	}
	if steps < 4 || requests/steps*simulatedSteps > mostRequests {
		return "", false
	}
	spec, err := json.Marshal(in.Spec)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%d %d %s %s", last, steps, at, spec), true
}

// run calibrates and simulates what is asked for, until ctx is done.
func (s *simulatedRuns) run(ctx context.Context) error {
	for {
		select {
		case job := <-s.jobs:
			s.learn(ctx, job)
			close(job.ready)
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *simulatedRuns) learn(ctx context.Context, job *simulatedRun) {
	name := job.input.Spec.Name
	record, err := s.record(ctx, name, job.input.Records)
	if err != nil {
		s.log.Debug("run cannot be simulated", "run", name, "error", err)
		return
	}
	c, err := calibration.Calibrate(ctx, record, calibration.Options{})
	if err != nil {
		s.log.Debug("run cannot be simulated", "run", name, "error", err)
		return
	}
	p := plan.NewPredictor(c, s.simulate)
	p.Learn(ctx, job.input)
	job.predictor = p
}
