package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/diagnosisinput"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
)

const (
	// verdictEvery is how often runs are looked at; one is diagnosed when it has completed a step since.
	verdictEvery = 5 * time.Second
	// verdictShare is the share of a processor that diagnoses for verdicts may take: after each there is a rest.
	verdictShare = 0.05
)

// verdictWatch tells when the diagnosis of a run says something else than it did, and sums up the steps that are too
// old to be looked at one by one. One server of a deployment does so at a time.
type verdictWatch struct {
	buffer *buffer.Store
	inputs diagnosisinput.Reader
	leads  func() bool
	log    *slog.Logger
	panics panics.Watch
	seen   map[rollout.RunName]rollout.Step // the next step when the run was diagnosed last
	// goodput hears of each diagnosis which share of the run's time was useful compute.
	goodput func(run rollout.RunName, share float64, over bool)
}

func newVerdictWatch(b *buffer.Store, in diagnosisinput.Reader, leads func() bool, survived panics.Watch,
	goodput func(rollout.RunName, float64, bool)) *verdictWatch {
	return &verdictWatch{buffer: b, inputs: in, leads: leads, log: survived.Log, panics: survived,
		seen:    map[rollout.RunName]rollout.Step{},
		goodput: goodput}
}

func (w *verdictWatch) run(ctx context.Context) error {
	ticker := time.NewTicker(verdictEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !w.leads() {
			clear(w.seen)
			continue
		}
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("look at the runs' verdicts", "error", err)
		}
	}
}

// look diagnoses every run that went on: those that are active, and those that have ended since the last look.
func (w *verdictWatch) look(ctx context.Context) error {
	runs, err := w.buffer.RecentlyActive(ctx)
	if err != nil {
		return err
	}
	active := map[rollout.RunName]bool{}
	for _, status := range runs {
		name := status.Spec.Name
		if status.Spec.Evaluation.Run != "" {
			continue // it goes behind, and waits as long as others need the engines
		}
		active[name] = true
		if _, known := w.seen[name]; !known {
			w.seen[name] = 0
		}
		if !w.keepUp(ctx, name, status.NextStep) {
			return nil
		}
	}
	for name := range w.seen {
		if active[name] {
			continue
		}
		status, err := w.buffer.Status(ctx, name)
		switch {
		case rollout.Refused(err, rollout.NoSuchRun):
			delete(w.seen, name)
			continue
		case err != nil:
			return err
		}
		if !w.keepUp(ctx, name, status.NextStep) {
			return nil
		}
		if w.seen[name] == status.NextStep {
			delete(w.seen, name)
		}
	}
	return nil
}

// keepUp diagnoses a run that has completed a step since, and then leaves the processor to others for a while. A
// diagnosis that fails is tried again at the next look. false: the watch is to end.
func (w *verdictWatch) keepUp(ctx context.Context, name rollout.RunName, next rollout.Step) bool {
	if w.seen[name] == next {
		return true
	}
	began := time.Now()
	err := w.panics.Catch("verdict", func() error { return w.diagnose(ctx, name, next) })
	broken := errors.Is(err, panics.ErrBroken)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil && !broken:
		w.log.Warn("diagnose for the verdict", "run", name, "error", err)
	default: // what broke the program once breaks it again until there is another step
		w.seen[name] = next
	}
	select {
	case <-time.After(time.Duration(float64(time.Since(began)) * (1 - verdictShare) / verdictShare)):
		return true
	case <-ctx.Done():
		return false
	}
}

// diagnose compares what a run's diagnosis says with what it said.
func (w *verdictWatch) diagnose(ctx context.Context, name rollout.RunName, next rollout.Step) error {
	if _, err := w.inputs.SumUp(ctx, name, next); err != nil {
		return err
	}
	in, err := w.inputs.Read(ctx, name, diagnosisinput.Steps{})
	if err != nil {
		return err
	}
	was, err := w.buffer.LastVerdict(ctx, name)
	if err != nil {
		return err
	}
	report := diagnosis.Diagnose(in)
	w.goodput(name, report.Goodput, in.Over)
	body, is := verdictOf(report, was)
	if is == was || is == string(diagnosis.VerdictNoAnswer) {
		return nil
	}
	_, err = w.buffer.TellVerdict(ctx, name, was, is, telemetry.Event{
		At: time.Now(), Run: name, Key: fmt.Sprintf("%s/diagnosed/%d/%s", name, body.Step, is), Body: body,
	})
	return err
}

// verdictOf is what a report says in an event, and in a word: the verdict and the first cause.
func verdictOf(r diagnosis.Report, was string) (telemetry.Diagnosed, string) {
	before, _, _ := strings.Cut(was, " ")
	body := telemetry.Diagnosed{Verdict: string(r.Verdict), Was: before, Step: r.To, Goodput: r.Goodput,
		StepSec: r.Regime.StepSec, Text: r.Summary}
	is := body.Verdict
	if len(r.Findings) > 0 {
		body.Cause = string(r.Findings[0].Cause)
		if since := r.Findings[0].Since; since != nil {
			body.Since = *since
		}
		is += " " + body.Cause
	}
	return body, is
}
