package workflows

import (
	"testing"
	"time"
)

// Rounds grow while Temporal takes them quickly, and become smaller as soon as it does not.
func TestRoundsFollowTemporal(t *testing.T) {
	t.Parallel()
	var p pace
	for i, step := range []struct {
		took   time.Duration
		groups int
		want   int // groups in the next round
	}{
		{0, 3, 16}, // a part of a round says nothing when it was quick
		{100 * time.Millisecond, 16, 32},
		{100 * time.Millisecond, 32, 64},
		{100 * time.Millisecond, 64, 64},
		{400 * time.Millisecond, 64, 64},
		{600 * time.Millisecond, 64, 32},
		{3 * time.Second, 5, 16}, // and much when it was slow
		{3 * time.Second, 16, 8},
		{3 * time.Second, 8, 8},
		{10 * time.Millisecond, 8, 16},
	} {
		p.took(step.took, step.groups)
		if got := p.most(); got != step.want {
			t.Fatalf("round %d, %d groups in %v: the next one has %d, want %d", i, step.groups, step.took, got, step.want)
		}
		now := time.Unix(int64(i)*10, 0)
		p.launched(now, step.want, 1)
		if left, next := p.left(now, 1); left != 0 || next != now.Add(roundEvery) {
			t.Fatalf("round %d: %d groups left in a full round, next at %v", i, left, next)
		}
	}
}
