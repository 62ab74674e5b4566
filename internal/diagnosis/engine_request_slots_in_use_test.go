package diagnosis

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// TestGamesInPlayAreTheRunsOwn, also those whose groups are dropped or cancelled later and are trained on in no step.
func TestGamesInPlayAreTheRunsOwn(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	r := steprecord.StepRecord{Done: true, Trainer: steprecord.StepReport{WallSec: 10}}
	r.Service.FirstAskedAt, r.Service.GrantedAt, r.Service.CompletedAt = at, at, at.Add(10*time.Second)
	r.Service.AtClaim.InFlight = 10
	r.Service.Groups = make([]steprecord.GroupView, 1)
	g := &r.Service.Groups[0]
	g.Times.StartedAt, g.Times.ReadyAt, g.Usage.ExecSec = at.Add(-20*time.Second), at, 840 // 42 requests at a time
	s, err := newStep(&r)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.heldAtClaim(); got != 420 {
		t.Errorf("10 groups in play hold %.0f requests, want 420", got)
	}
}
