package crashtest

import (
	"testing"
	"time"
)

func TestScheduleIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	a, b, c := NewSchedule(7, time.Second, 2, 3), NewSchedule(7, time.Second, 2, 3), NewSchedule(8, time.Second, 2, 3)
	same := true
	for range 100 {
		x, y, z := a.Next(), b.Next(), c.Next()
		if x != y {
			t.Fatalf("%s and %s of the same seed", x, y)
		}
		same = same && x == z
	}
	if same {
		t.Error("another seed gives the same schedule")
	}
}

// Every deck holds every kind, and every fault is over before the next one begins.
func TestScheduleDealsEveryKindAndOneAtATime(t *testing.T) {
	t.Parallel()
	for seed := range int64(50) {
		s := NewSchedule(seed, time.Second, 2, 3)
		seen := map[Kind]bool{}
		free := time.Duration(0)
		for range Kinds() {
			f := s.Next()
			seen[f.Kind] = true
			if f.At < free {
				t.Errorf("seed %d: %s begins before %s", seed, f, free)
			}
			free = f.At + f.Hold
			if f.Index < 0 || f.Index > 2 {
				t.Errorf("seed %d: %s", seed, f)
			}
		}
		for _, k := range Kinds() {
			if !seen[k] {
				t.Errorf("seed %d: the first deck has no %s", seed, k)
			}
		}
	}
}

// What the README says of ten minutes: at the default pace there are more than 100 faults.
func TestTenMinutesHoldAHundredFaults(t *testing.T) {
	t.Parallel()
	s := NewSchedule(1, DefaultEvery, workers, engines)
	n := 0
	for s.Next().At < 10*time.Minute {
		n++
	}
	if n < 110 {
		t.Errorf("%d faults", n)
	}
}
