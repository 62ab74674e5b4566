package crashtest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestScheduleIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	a, b, c := NewSchedule(Kinds(), 7, time.Second, 0, 2, 3), NewSchedule(Kinds(), 7, time.Second, 0, 2, 3),
		NewSchedule(Kinds(), 8, time.Second, 0, 2, 3)
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
	for _, deck := range Decks() {
		for _, redis := range Layouts() {
			t.Run(string(deck)+" "+string(redis), func(t *testing.T) { testDeck(t, deck.Kinds(redis)) })
		}
	}
}

func testDeck(t *testing.T, kinds []Kind) {
	t.Parallel()
	for seed := range int64(50) {
		s := NewSchedule(kinds, seed, time.Second, 0, 2, 3)
		seen := map[Kind]bool{}
		free := time.Duration(0)
		for range kinds {
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
		for _, k := range kinds {
			if !seen[k] {
				t.Errorf("seed %d: the first deck has no %s", seed, k)
			}
		}
	}
}

// Temporal is unavailable for several slots at a time, and once for as long as was asked for; nothing else is done
// meanwhile.
func TestTemporalIsUnavailableForLong(t *testing.T) {
	t.Parallel()
	const long = 2 * time.Minute
	s := NewSchedule(Kinds(), 3, time.Second, long, 2, 3)
	asked, free := 0, time.Duration(0)
	for range 5 * len(Kinds()) {
		f := s.Next()
		if f.At < free {
			t.Errorf("%s begins before %s", f, free)
		}
		free = f.At + f.Hold
		if f.Kind != TemporalOutage {
			continue
		}
		free += time.Second
		if f.Hold == long {
			asked++
		} else if f.Hold < 6*time.Second || f.Hold > 8*time.Second {
			t.Errorf("%s, want 6 to 8 slots", f)
		}
	}
	if asked != 1 {
		t.Errorf("%d absences of %s, want one", asked, long)
	}
}

// What the README says of ten minutes: at the default pace there are 90 faults and more, the long absence included.
func TestTenMinutesHoldNinetyFaults(t *testing.T) {
	t.Parallel()
	for seed := range int64(50) {
		s := NewSchedule(Kinds(), seed, DefaultEvery, 125*time.Second, workers, engines)
		n := 0
		for s.Next().At < 10*time.Minute {
			n++
		}
		if n < 90 {
			t.Errorf("seed %d: %d faults", seed, n)
		}
	}
}

// However slow the machine is, a schedule's faults are all done, one after the other and at their pace. What could not
// be done is tried once more.
func TestScheduleIsPlayedToItsEnd(t *testing.T) {
	t.Parallel()
	const duration, never = time.Minute, time.Hour
	schedule := func() *Schedule { return NewSchedule(Kinds(), 7, 3*time.Second, 0, 2, 3) }
	var dealt []Fault
	s := schedule()
	for f := s.Next(); f.At < duration; f = s.Next() {
		dealt = append(dealt, f)
	}
	for _, tt := range []struct {
		name  string
		takes time.Duration // a fault
		fails int           // which fault, in the order of the schedule, cannot be done at its time
		end   time.Duration // when it is stopped
		want  []Fault
	}{
		{"a quiet machine", 0, -1, never, dealt},
		{"each fault takes longer than its slots", 40 * time.Second, -1, never, dealt},
		{"there is nothing to break at the fault's time", time.Second, 2, never, append(slices.Clone(dealt), dealt[2])},
		{"it is stopped", 40 * time.Second, -1, time.Minute, dealt[:2]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), tt.end)
				defer stop()
				var done []Fault
				var last time.Time
				schedule().play(ctx, duration, func(_ context.Context, f Fault) bool {
					if n := len(done); n > 0 && n < len(dealt) && time.Since(last) < f.At-done[n-1].At {
						t.Errorf("%s comes %s after %s", f, time.Since(last), done[n-1])
					}
					last = time.Now()
					time.Sleep(tt.takes)
					done = append(done, f)
					return len(done)-1 != tt.fails
				})
				if !slices.Equal(done, tt.want) {
					t.Errorf("done is\n%v\nnot\n%v", done, tt.want)
				}
			})
		})
	}
}
