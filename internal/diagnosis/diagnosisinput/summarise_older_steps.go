package diagnosisinput

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

// blocksAtOnce bounds the blocks that one call of SumUp does: some 100 ms of a processor.
const blocksAtOnce = 20

// older is the summary of a run's older steps; nil: there is none, or it has steps that come again after a rewind.
func (r Reader) older(ctx context.Context, run rollout.RunName, next rollout.Step) (*diagnosis.Older, error) {
	data, err := r.Buffer.Older(ctx, run)
	if err != nil || data == nil {
		return nil, err
	}
	var older diagnosis.Older
	if err := json.Unmarshal(data, &older); err != nil {
		return nil, fmt.Errorf("read what is kept of the older steps of run %s: %w", run, err)
	}
	if older.To > next {
		return nil, nil
	}
	return &older, nil
}

// SumUp sums up steps that are too old to be looked at one by one, some blocks of them, and reports whether more are to
// be. Any server may do it, and several may.
func (r Reader) SumUp(ctx context.Context, run rollout.RunName, next rollout.Step) (more bool, err error) {
	kept, err := r.older(ctx, run, next)
	if err != nil {
		return false, err
	}
	var older diagnosis.Older
	if kept != nil {
		older = *kept
	}
	for range blocksAtOnce {
		if next-older.To < maxDiagnosed {
			return false, nil
		}
		records, err := r.Buffer.Steps(ctx, run, older.To, diagnosis.OlderSteps)
		if err != nil {
			return false, fmt.Errorf("read steps: %w", err)
		}
		after := diagnosis.SumUp(older, records)
		data, err := json.Marshal(after)
		if err != nil {
			return false, err
		}
		if mine, err := r.Buffer.SaveOlder(ctx, run, older.To, after.To, data); err != nil || !mine {
			return false, err
		}
		older = after
	}
	return true, nil
}
