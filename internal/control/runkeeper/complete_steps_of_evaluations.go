package runkeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/control/evaluation"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// completeEvaluations does for evaluations what trainers do for other runs: it claims the batches that are ready and
// completes their steps. A claim gives the same batch again and a step is completed once, so that a keeper that died in
// between is followed by one that goes on.
func (k *Keeper) completeEvaluations(ctx context.Context) error {
	active, err := k.Buffer.RecentlyActive(ctx)
	faults := []error{err}
	for _, run := range active {
		if run.Spec.Evaluation.Run == "" || run.State != runstatus.RunRunning {
			continue
		}
		if err := k.completeSteps(ctx, run); err != nil {
			faults = append(faults, fmt.Errorf("evaluation %s: %w", run.Spec.Name, err))
		}
	}
	return errors.Join(faults...)
}

func (k *Keeper) completeSteps(ctx context.Context, run runstatus.RunStatus) error {
	account, err := k.Buffer.Account(ctx, run.Spec.Name)
	if err != nil {
		return err
	}
	generation := account.Generation // not 0 in a run of a name that came back
	for step := run.NextStep; int(step) < run.Spec.Steps; step++ {
		if known, err := k.knowsEnough(ctx, run.Spec, step); err != nil {
			return err
		} else if known {
			_, err := k.Control.Change(ctx, run.Spec.Name, spec.Change{Set: settings.Patch{"steps": int(step)}})
			return err
		}
		_, err := k.Buffer.ClaimRaw(ctx, run.Spec.Name, step, generation, buffer.Share{})
		switch {
		case rollout.Refused(err, rollout.NotReady), rollout.Refused(err, rollout.RunOver):
			return nil
		case rollout.Refused(err, rollout.NotRetained): // completed, and the run is about to say so
			continue
		case err != nil:
			return err
		}
		_, _, err = k.Buffer.Complete(ctx, run.Spec.Name, step, generation, steprecord.StepReport{},
			steprecord.FleetView{})
		if err != nil {
			return err
		}
		if err := k.Control.BufferChanged(ctx, run.Spec.Name, runstatus.Mark{}); err != nil {
			return err
		}
	}
	return nil
}

// leastGroups is how many games that began differently say how far rewards are apart.
const leastGroups = 30

// knowsEnough reports whether the first steps tell the mean reward as closely as was asked for. There is a look after
// each step, and the interval is one that holds at all of them.
func (k *Keeper) knowsEnough(ctx context.Context, s runspec.Spec, steps rollout.Step) (bool, error) {
	if s.Evaluation.HalfWidth == 0 || steps == 0 {
		return false, nil
	}
	records, err := k.Buffer.Steps(ctx, s.Name, 0, int(steps))
	if err != nil {
		return false, err
	}
	reward := evaluation.Reward(records)
	mean := reward.Interval(evaluation.Confidence(&s))
	return reward.Groups >= leastGroups && mean.Half > 0 && mean.Half <= s.Evaluation.HalfWidth, nil
}
