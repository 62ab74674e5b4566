package bufferload

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// trainerLoad is a trainer that takes batches as soon as they are there, and needs no time for them.
type trainerLoad struct {
	run    rollout.RunName
	buffer *buffer.Store
	games  *gameLoad
	done   *done
}

// train trains until the context ends.
func (t *trainerLoad) train(ctx context.Context) error {
	generation, step, err := t.buffer.Attach(ctx, t.run, nil)
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	follow, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_ = t.buffer.Follow(follow, func() {}, func(rollout.RunName) { // the next look does without
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	for ; ctx.Err() == nil; step++ {
		if err := t.step(ctx, generation, step, changed); err != nil {
			return err
		}
	}
	return nil
}

// lookAnyway is how often a claim that waits asks when it hears of nothing.
const lookAnyway = 2 * time.Second

func (t *trainerLoad) step(ctx context.Context, generation rollout.TrainerGeneration, step rollout.Step,
	changed chan struct{}) error {
	for {
		batch, err := t.buffer.ClaimRaw(ctx, t.run, step, generation, buffer.Share{})
		if err == nil {
			if err = batch.WriteCompact(io.Discard); err != nil {
				return err
			}
			break
		}
		if !rollout.Refused(err, rollout.NotReady) {
			return fmt.Errorf("claim step %d: %w", step, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(lookAnyway):
		}
	}
	report := steprecord.StepReport{WallSec: 1, Phases: map[steprecord.Phase]float64{steprecord.PhaseTrain: 1}}
	if _, _, err := t.buffer.Complete(ctx, t.run, step, generation, report, steprecord.FleetView{}); err != nil {
		return fmt.Errorf("complete step %d: %w", step, err)
	}
	version := rollout.PolicyVersion(step) + 1
	if err := t.buffer.SetVersion(ctx, t.run, version, 0); err != nil {
		return err
	}
	t.games.version.Store(int64(version))
	t.done.steps.Add(1)
	return nil
}
