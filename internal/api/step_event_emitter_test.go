package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// granting is a buffer that forms a batch at the first claim and finds it at the others.
type granting struct {
	Store
	claims int
	record error
}

func (g *granting) ClaimRaw(_ context.Context, run rollout.RunName, step rollout.Step, _ rollout.TrainerGeneration,
	_ buffer.Share) (*buffer.RawBatch, error) {
	g.claims++
	return &buffer.RawBatch{Run: run, Step: step, Granted: g.claims == 1}, nil
}

func (g *granting) Step(_ context.Context, _ rollout.RunName, step rollout.Step) (rollout.StepRecord, error) {
	at := time.Unix(100, 0)
	return rollout.StepRecord{Step: step, Service: rollout.ServiceView{
		FirstAskedAt: at, GrantedAt: at.Add(1500 * time.Millisecond), AtClaim: rollout.BufferCounts{Ready: 8},
		StalenessInFlightMean: 1, StalenessInBufferMean: 0.5, ZeroVarianceGroups: 2,
	}}, g.record
}

// TestABatchIsReportedWhenItIsFormed: once, with what its record says, and never at the expense of the claim.
func TestABatchIsReportedWhenItIsFormed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		record error
		events int
	}{{"formed", nil, 1}, {"its record cannot be read", errors.New("redis is unavailable"), 0}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var events []telemetry.Event
			r := stepEvents{&granting{record: tt.record}, telemetry.EmitterFunc(func(e telemetry.Event) {
				events = append(events, e)
			})}
			for range 3 {
				if _, err := r.ClaimRaw(t.Context(), "demo", 4, 1, buffer.Share{}); err != nil {
					t.Fatal(err)
				}
			}
			if len(events) != tt.events {
				t.Fatalf("%d events of three claims, want %d", len(events), tt.events)
			}
			want := telemetry.BatchClaimed{
				Step: 4, Counts: rollout.BufferCounts{Ready: 8}, StarvedSec: 1.5, StalenessInFlightMean: 1,
				StalenessInBufferMean: 0.5, ZeroVarianceGroups: 2,
			}
			if tt.events > 0 && events[0].Body != want {
				t.Errorf("%+v, want %+v", events[0].Body, want)
			}
		})
	}
}
