// Package diagnosisinput reads the input of a run's diagnosis: step records, events, standing alarms. It concludes
// nothing. Start reading at Reader.
package diagnosisinput

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/mailbox"
)

// maxDiagnosed is how many of the newest steps a diagnosis reads, as the detector of level shifts advises.
const maxDiagnosed = 500

// maxAsked is how many steps are read when some are asked about; the newest of them.
const maxAsked = 5000

// Reader reads from the stores that hold Millrace's own records.
type Reader struct {
	Buffer   *buffer.Store
	Registry scaledfleet.Registry
	Workers  *workerregistry.Registry
	Events   *store.Store
	Mail     *mailbox.Box
}

// Steps bounds the steps that are asked about, both included; nil: from the first, or to the newest.
type Steps struct{ First, Last *rollout.Step }

// All reports whether nothing is left out.
func (s Steps) All() bool { return s.First == nil && s.Last == nil }

// Read reads the input of a run's diagnosis as of now: the newest steps and the summary of older ones, or the steps
// asked for.
func (r Reader) Read(ctx context.Context, run rollout.RunName, asked Steps) (diagnosis.Input, error) {
	status, err := r.Buffer.Status(ctx, run)
	if err != nil {
		return diagnosis.Input{}, err
	}
	in := diagnosis.Input{
		Spec: status.Spec, Over: status.State.Over(), Loads: []diagnosis.AdapterLoad{}, First: asked.First, Last: asked.Last,
		RewardVariance: status.RewardVariance, Throttle: status.Throttle,
	}
	from, to := max(0, status.NextStep-maxDiagnosed), status.NextStep
	if asked.All() {
		if in.Older, err = r.older(ctx, run, status.NextStep); err != nil {
			return diagnosis.Input{}, err
		}
		if in.Older != nil {
			from = max(from, in.Older.To)
		}
	} else if asked.Last != nil {
		to = min(to, *asked.Last+1)
		from = max(0, to-maxDiagnosed)
	}
	if asked.First != nil {
		to = min(to, max(*asked.First, to-maxAsked)+maxAsked)
		from = max(*asked.First, to-maxAsked)
	}
	for at := from; at < to; at += maxDiagnosed {
		some, err := r.Buffer.Steps(ctx, run, at, int(min(to-at, maxDiagnosed)))
		if err != nil {
			return diagnosis.Input{}, fmt.Errorf("read steps: %w", err)
		}
		in.Records = append(in.Records, some...)
	}
	records := in.Records
	if in.Departures, err = r.Buffer.Departures(ctx, run); err != nil {
		return diagnosis.Input{}, fmt.Errorf("count departures: %w", err)
	}
	since := status.StartedAt
	if from > 0 && len(records) > 0 { // earlier events explain none of these steps
		since = records[0].Service.FirstAskedAt
	}
	engines, err := r.Registry.List(ctx)
	if err != nil {
		return diagnosis.Input{}, fmt.Errorf("list engines: %w", err)
	}
	in.AdapterSlots = enginestate.FewestSlots(engines)
	if in.Alarms, err = r.alarms(ctx, status, engines); err != nil {
		return diagnosis.Input{}, fmt.Errorf("look for alarms: %w", err)
	}
	if in.Scaling, err = r.scaling(ctx); err != nil {
		return diagnosis.Input{}, fmt.Errorf("look at scaling: %w", err)
	}
	for _, scope := range []rollout.RunName{run, ""} { // the run's own events, then the fleet's
		if err := r.readEvents(ctx, &in, scope, since); err != nil {
			return diagnosis.Input{}, fmt.Errorf("read events: %w", err)
		}
	}
	slices.SortStableFunc(in.Events, func(a, b diagnosis.Event) int { return a.At.Compare(b.At) })
	return in, nil
}

// alarms lists what stops a run's games now.
func (r Reader) alarms(ctx context.Context, status runstatus.RunStatus, engines []enginestate.Engine,
) ([]runstatus.Alarm, error) {
	attempts, err := r.Buffer.AttemptCounts(ctx, status.Spec.Name)
	if err != nil {
		return nil, err
	}
	workers, err := r.Workers.List(ctx)
	if err != nil {
		return nil, err
	}
	scaled, err := r.Registry.Scaled(ctx)
	if err != nil {
		return nil, err
	}
	trainer, err := r.Buffer.TrainerActivity(ctx, status.Spec.Name)
	if err != nil {
		return nil, err
	}
	evidence := alarm.Evidence{Now: time.Now(), Run: status, Attempts: attempts, Workers: workers, Engines: engines,
		Scaling: scaled, Trainer: trainer}
	evidence.Unplayed, evidence.UnplayedSince, err = r.Mail.Unplayed(ctx, status.Spec)
	return alarm.Of(evidence), err
}

// scaling is the present state of scaling; nil: the fleet is not scaled.
func (r Reader) scaling(ctx context.Context) (*diagnosis.ScalingNow, error) {
	v, err := r.Registry.Scaled(ctx)
	if err != nil || v == nil {
		return nil, err
	}
	now := &diagnosis.ScalingNow{Wanted: v.Wanted, Max: v.Settings.Max, Most: scaling.MostEngines,
		Affordable: v.Settings.Affordable(), Fixed: v.Settings.Policy == scaling.Fixed, Price: v.Settings.Price,
		Starting: v.Actual.Starting, Why: v.Why, Trouble: v.Trouble}
	return now, nil
}
