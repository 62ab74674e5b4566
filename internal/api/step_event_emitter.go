package api

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// stepEvents is the buffer with an event for each batch that is formed and each step that is completed.
type stepEvents struct {
	Store
	emit telemetry.Emitter
}

// ClaimRaw reports a batch when it is formed, from the record that it has by then. A record that cannot be read
// costs the event and never the claim.
func (r stepEvents) ClaimRaw(
	ctx context.Context, run rollout.RunName, step rollout.Step, generation rollout.TrainerGeneration, share buffer.Share,
) (*buffer.RawBatch, error) {
	batch, err := r.Store.ClaimRaw(ctx, run, step, generation, share)
	if err != nil || !batch.Granted {
		return batch, err
	}
	if record, err := r.Step(ctx, run, step); err == nil {
		v := record.Service
		r.emit.Emit(telemetry.Event{
			At: v.GrantedAt, Run: run, Key: fmt.Sprintf("%s/claim/%d/%d", run, step, v.GrantedAt.UnixMilli()),
			Body: telemetry.BatchClaimed{
				Step: step, Counts: v.AtClaim, StarvedSec: max(0, v.GrantedAt.Sub(v.FirstAskedAt).Seconds()),
				StalenessInFlightMean: v.StalenessInFlightMean, StalenessInBufferMean: v.StalenessInBufferMean,
				ZeroVarianceGroups: v.ZeroVarianceGroups,
			},
		})
	}
	return batch, nil
}

func (r stepEvents) Complete(ctx context.Context, run rollout.RunName, step rollout.Step,
	generation rollout.TrainerGeneration,
	report rollout.StepReport, fleet rollout.FleetView,
) (rollout.StepRecord, bool, error) {
	record, isNew, err := r.Store.Complete(ctx, run, step, generation, report, fleet)
	if err == nil && isNew {
		r.emit.Emit(telemetry.Event{
			At: record.Service.CompletedAt, Run: run, Key: fmt.Sprintf("%s/step/%d", run, step),
			Body: telemetry.StepCompleted{Record: record},
		})
	}
	return record, isNew, err
}
