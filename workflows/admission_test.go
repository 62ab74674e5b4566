package workflows

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// The demo spec asks for 2 steps' worth of 3 groups.
func TestRoom(t *testing.T) {
	t.Parallel()
	bounded := func(bytes, mean int64) func(*runState) {
		return func(s *runState) {
			s.Spec.Buffer.MaxBytes = 1000
			s.reconcile(buffer.Account{Counts: rollout.BufferCounts{Bytes: bytes}, GroupBytes: mean}, nil)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*runState)
		room   int
		why    rollout.Throttle
	}{
		{"the depth", func(*runState) {}, 6, ""},
		{"as stale as it may be", func(s *runState) { s.Spec.Buffer.MaxStaleness = 1 }, 6, ""},
		{"too stale, before any step", func(s *runState) { s.Spec.Buffer.MaxStaleness = 0 }, 3, rollout.ThrottleStaleness},
		{"too stale, while a step is trained on", func(s *runState) { s.Spec.Buffer.MaxStaleness, s.Claimed = 1, 1 }, 3, rollout.ThrottleStaleness},
		{"on-policy, while a step is trained on", func(s *runState) { s.Spec.Buffer.MaxStaleness, s.Claimed = 0, 1 }, 0, rollout.ThrottleStaleness},
		{"on-policy, when it is completed", func(s *runState) { s.Spec.Buffer.MaxStaleness, s.Claimed, s.Completed = 0, 1, 1 }, 3, rollout.ThrottleStaleness},
		{"waiting instead of dropping", func(s *runState) {
			s.Spec.Buffer.MaxStaleness, s.Spec.Buffer.OnStale = 0, rollout.WaitStale
		}, 3, rollout.ThrottleStaleness},
		{"nothing is too stale", func(s *runState) {
			s.Spec.Buffer.MaxStaleness, s.Spec.Buffer.OnStale, s.Claimed = 0, rollout.KeepStale, 1
		}, 6, ""},
		{"bytes: nothing is known of their size", bounded(0, 0), 3, rollout.ThrottleBytes},
		{"bytes: plenty", bounded(0, 100), 6, ""},
		{"bytes: four more fit", bounded(550, 100), 4, rollout.ThrottleBytes},
		{"bytes: four more fit beside two that are ready", func(s *runState) {
			bounded(550, 100)(s)
			s.Ready = []rollout.GroupSeq{0, 1}
		}, 6, ""},
		{"bytes: full, but a batch is always made", bounded(2000, 100), 3, rollout.ThrottleBytes},
		{"bytes: full, and the last step is claimed", func(s *runState) {
			bounded(2000, 100)(s)
			s.Claimed = 5
		}, 0, ""},
		{"a history from before there were bounds", func(s *runState) {
			bounded(2000, 100)(s)
			s.Spec.Buffer.MaxStaleness, s.unbounded = 0, true
		}, 6, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newRunState(demoSpec(), time.Time{})
			tt.change(s)
			if room, why := s.room(); room != tt.room || why != tt.why {
				t.Errorf("room for %d groups (%q), want %d (%q)", room, why, tt.room, tt.why)
			}
		})
	}
}

// Under drop and wait, a group launched into the room that there is can be trained on in time, if the trainer publishes
// once per step and takes the oldest groups first.
func FuzzRoomKeepsGroupsFresh(f *testing.F) {
	f.Add(uint8(2), uint8(1), uint8(0), []byte{1, 1, 0, 1})
	f.Add(uint8(7), uint8(3), uint8(2), []byte{0, 1, 0, 1, 1, 1, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, depth, perStep, staleness uint8, moves []byte) {
		s := newRunState(demoSpec(), time.Time{})
		s.Spec.Steps = 1 << 20
		b := &s.Spec.Buffer
		b.Depth, b.GroupsPerStep, b.MaxStaleness = int(depth%8)+1, int(perStep%5)+1, int64(staleness%6)
		for _, move := range moves {
			for range s.launches() {
				s.launch()
			}
			switch {
			case move%2 == 0 && s.Claimed <= s.Completed+1 && len(s.Playing) >= b.GroupsPerStep: // a claim
				for _, p := range s.Playing[:b.GroupsPerStep] {
					if behind := int64(s.Version - p.Version); behind > b.MaxStaleness {
						t.Fatalf("step %d is given group %d, %d versions behind of at most %d", s.Claimed, p.Seq, behind, b.MaxStaleness)
					}
				}
				s.Playing = s.Playing[b.GroupsPerStep:]
				s.Claimed++
			case move%2 == 1 && s.Completed < s.Claimed: // a version is published, and its step's record put
				s.Version++
				s.Completed++
			}
		}
	})
}

func TestSignalCollapsesAndComesBack(t *testing.T) {
	t.Parallel()
	var f flatness
	var next rollout.GroupSeq
	feed := func(flat bool, n int) (changes int) {
		for range n {
			for range 2 { // each is told twice
				if f.add(next, flat) {
					changes++
				}
			}
			next++
		}
		return changes
	}
	if feed(true, 15) != 0 || f.Collapsed {
		t.Error("collapsed with fewer than half a window of groups")
	}
	if feed(true, 1) != 1 || !f.Collapsed {
		t.Error("16 of 16 groups are flat, and no alarm")
	}
	if feed(true, 100) != 0 {
		t.Error("told again though nothing has changed")
	}
	if feed(false, 21) != 0 || !f.Collapsed {
		t.Errorf("taken back while %+v", f.signal())
	}
	if feed(false, 1) != 1 || f.Collapsed {
		t.Errorf("not taken back at %+v", f.signal())
	}
	if got := f.signal(); got.Groups != 32 || got.Flat != 10 {
		t.Errorf("%+v, want 10 flat of the latest 32", got)
	}
	if feed(true, 1) != 0 { // 11 of 32: between the two bounds
		t.Error("flutters")
	}
}

func TestWhenGamesAreEnough(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		running          int
		finished         int
		late             bool
		enough, hopeless bool
	}{
		{"at the beginning", 6, 0, false, false, false},
		{"the minimum, in its grace", 4, 2, false, false, false},
		{"the minimum, its grace over", 4, 2, true, true, false},
		{"less than the minimum, late", 5, 1, true, false, false},
		{"all that are wanted, with surplus running", 2, 4, false, true, false},
		{"two failed, the rest running", 4, 0, false, false, false},
		{"the minimum, and all others failed", 0, 2, false, true, false},
		{"too few can still finish", 1, 0, false, false, true},
	} {
		g := games{running: tt.running, finished: make([]int, tt.finished), late: tt.late}
		var plan GroupInput
		plan.Plan.GroupSpec = rollout.GroupSpec{Samples: 4, MinSamples: 2, Oversample: 2}
		if g.enough(plan.Plan) != tt.enough || g.hopeless(plan.Plan) != tt.hopeless {
			t.Errorf("%s: enough %v, hopeless %v", tt.name, g.enough(plan.Plan), g.hopeless(plan.Plan))
		}
	}
}
