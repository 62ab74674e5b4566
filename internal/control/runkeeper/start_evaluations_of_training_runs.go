package runkeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/control/evaluation"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// evaluationsAtOnce is how many evaluations of one run may go on. Versions that come meanwhile are passed over, so that
// evaluations that find no idle capacity do not heap up.
const evaluationsAtOnce = 4

// startEvaluations starts those that runs want of their newest versions. An evaluation that is there is not started
// again, and one that cannot be started is tried again and changes nothing of the run.
func (k *Keeper) startEvaluations(ctx context.Context) error {
	active, err := k.Buffer.RecentlyActive(ctx)
	faults, going := []error{err}, map[rollout.RunName]int{}
	wanting := map[rollout.RunName]bool{}
	for _, run := range active {
		going[run.Spec.Evaluation.Run]++
		if run.Spec.Evaluate.Every > 0 {
			wanting[run.Spec.Name] = true
		}
	}
	ended, err := k.endedOf(ctx, wanting)
	faults = append(faults, err)
	for _, run := range slices.Concat(active, ended) {
		for _, asked := range evaluation.Due(run, time.Now()) {
			wanting[run.Spec.Name] = true
			started, err := k.startEvaluation(ctx, run, asked, going[run.Spec.Name])
			if err != nil {
				faults = append(faults, fmt.Errorf("version %d of run %s against %s: %w", asked.Version, run.Spec.Name,
					asked.Against, err))
			}
			if started {
				going[run.Spec.Name]++
			}
		}
	}
	if err == nil {
		k.wanting = wanting
	}
	return errors.Join(faults...)
}

// endedOf is the newest ended runs, if one may be among them whose last version is to be evaluated: the keeper has just
// begun, or a run that may have one is not active. Otherwise what is over is not read again and again (ADR 18).
func (k *Keeper) endedOf(ctx context.Context, active map[rollout.RunName]bool) ([]runstatus.RunStatus, error) {
	left := k.wanting == nil
	for run := range k.wanting {
		left = left || !active[run]
	}
	if !left {
		return nil, nil
	}
	all := func(rollout.RunName) bool { return true }
	ended, _, err := k.Buffer.EndedRuns(ctx, "", lookedAtAgain, all)
	return ended, err
}

// lookedAtAgain is how many ended runs may have a last version to evaluate, the newest ones.
const lookedAtAgain = 32

// startEvaluation starts one unless it was there, or enough others go on.
func (k *Keeper) startEvaluation(ctx context.Context, run runstatus.RunStatus, asked evaluation.Asked, going int) (bool,
	error) {
	name := evaluation.Name(run.Spec.Name, asked)
	if _, err := k.Buffer.Status(ctx, name); !rollout.Refused(err, rollout.NoSuchRun) {
		return false, err
	}
	spec, err := evaluation.Spec(run, asked)
	if err != nil || going >= evaluationsAtOnce {
		return false, err
	}
	_, started, err := k.Control.Start(ctx, spec)
	if rollout.Refused(err, rollout.RunOver) {
		return false, nil // somebody has deleted it
	}
	return started, err
}
