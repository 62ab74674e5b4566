package diagnosis

import (
	"fmt"
	"testing"
	"time"
)

// TestAllEnginesLostAreNamed: those that went at about the same time, up to some.
func TestAllEnginesLostAreNamed(t *testing.T) {
	t.Parallel()
	at := func(sec int) time.Time { return time.Unix(int64(sec), 0) }
	var events []Event
	for i := range 6 {
		events = append(events, Event{at(10), EventEngineLost, fmt.Sprintf("engine e%d is lost", i)})
	}
	late := Event{at(99), EventEngineLost, "engine late is lost"}
	for _, tt := range []struct {
		lost int
		want string
	}{
		{1, "engine e0 is lost"},
		{2, "engine e0 is lost, engine e1 is lost"},
		{6, "engine e0 is lost, engine e1 is lost, engine e2 is lost, engine e3 is lost, and 2 more"},
	} {
		some := append(events[:tt.lost:tt.lost], late)
		if got := joinedEvents(some, at(0), at(20), &some[0]).Text; got != tt.want {
			t.Errorf("%d engines: %q, want %q", tt.lost, got, tt.want)
		}
	}
}
