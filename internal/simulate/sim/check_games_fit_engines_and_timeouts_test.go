package sim

import (
	"context"
	"strings"
	"testing"
)

// TestAnswersThatTakeTooLong: what no engine answers in time is refused before it is simulated, and told by name where
// engines became so slow only later.
func TestAnswersThatTakeTooLong(t *testing.T) {
	t.Parallel()
	s := byHand{groups: 2, depth: 1, slots: 1, call: 600 * second, steps: 8}.setup()
	s.Timeouts.Completion = 300 * second
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "timeouts.completion") {
		t.Errorf("calls of 10 min within 5: %v", err)
	}
	s.Fleet.CallTime = 60 * second
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	s.Fleet.Events = []FleetEvent{{Step: 2, Kind: SlowEngine, Factor: 10}}
	_, err := Run(context.Background(), s, Options{})
	if err == nil || !strings.Contains(err.Error(), "timeouts.completion") {
		t.Errorf("calls of 1 min that become 10: %v", err)
	}
}
