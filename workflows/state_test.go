package workflows

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

func demoSpec() rollout.Spec {
	return rollout.Spec{
		Name: "demo", Model: "base", Steps: 5,
		Environment: rollout.Environment{Kind: "tictactoe"},
		Group:       rollout.GroupSpec{Samples: 2, MinSamples: 2},
		Buffer:      rollout.BufferSpec{Depth: 2, GroupsPerStep: 3, MaxStaleness: 4, OnStale: rollout.DropStale},
		Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 8},
		Timeouts: rollout.Timeouts{
			Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(time.Hour), Heartbeat: rollout.Duration(10 * time.Second),
		},
	}
}

func TestLaunches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*runState)
		want   int
	}{
		{"prefill: depth x groups_per_step", func(*runState) {}, 6},
		{"one launched", func(s *runState) { s.launch() }, 5},
		{"one ready", func(s *runState) { s.Ready = []rollout.GroupSeq{0} }, 5},
		{"a step claimed", func(s *runState) { s.Claimed = 1 }, 6},
		{"one step left to claim", func(s *runState) { s.Claimed = 4 }, 3},
		{"all steps claimed", func(s *runState) { s.Claimed = 5 }, 0},
		{"paused", func(s *runState) { s.State = rollout.RunPaused }, 0},
		{"deeper", func(s *runState) { s.apply(rollout.Change{Depth: ptr(4)}) }, 12},
		{"shallower than what is out", func(s *runState) {
			for range 6 {
				s.launch()
			}
			s.apply(rollout.Change{Depth: ptr(1)})
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newRunState(demoSpec(), time.Time{})
			tt.change(s)
			if got := s.launches(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// Whatever is heard, in whatever order and however often, after an audit the account is the buffer's.
func TestReconcileRepairsLostAndRepeatedSignals(t *testing.T) {
	t.Parallel()
	s := newRunState(demoSpec(), time.Time{})
	for range 6 {
		s.launch()
	}
	s.end(0, "")
	s.end(0, "")         // repeated
	s.end(1, "deadline") // dropped
	// The ends of 2 and 3 were lost; meanwhile 0, 2 and 3 were ready, and step 0 took 0 and 2 with another group.
	s.reconcile(buffer.Account{Highest: 5, Ready: []rollout.GroupSeq{3}, ClaimedTo: 1, NextStep: 0}, slices.Clone(s.Ready))
	if !slices.Equal(s.Ready, []rollout.GroupSeq{3}) {
		t.Errorf("ready %v, want [3]", s.Ready)
	}
	if len(s.Playing) != 3 { // 2, 4, 5: the end of 2 will still come, or the group is gone
		t.Errorf("playing %v", s.Playing)
	}
	s.end(2, "")
	s.reconcile(buffer.Account{Highest: 5, Ready: []rollout.GroupSeq{3}, ClaimedTo: 1, NextStep: 1}, slices.Clone(s.Ready))
	if s.outstanding() != 3 || s.Claimed != 1 || s.Completed != 1 || s.Failures["deadline"] != 1 {
		t.Errorf("%+v", s)
	}
	if want := 3; s.launches() != want {
		t.Errorf("launches %d, want %d", s.launches(), want)
	}
}

// The buffer's answer may be older than a group's end that was heard while waiting for it.
func TestReconcileKeepsWhatBecameReadySinceItAsked(t *testing.T) {
	t.Parallel()
	s := newRunState(demoSpec(), time.Time{})
	for range 6 {
		s.launch()
	}
	s.end(0, "")
	asked := slices.Clone(s.Ready)
	s.end(1, "")
	s.reconcile(buffer.Account{Highest: 5, Ready: []rollout.GroupSeq{0}}, asked)
	if s.outstanding() != 6 || s.launches() != 0 {
		t.Errorf("%d outstanding, %d to launch; want 6 and 0", s.outstanding(), s.launches())
	}
}

func TestUnusedVersions(t *testing.T) {
	t.Parallel()
	s := newRunState(demoSpec(), time.Time{})
	s.Version = 3
	for v := rollout.PolicyVersion(1); v <= 3; v++ {
		s.Policies = append(s.Policies, rollout.Policy{Version: v, State: rollout.PolicyServing})
	}
	s.Playing = []playing{{Seq: 7, Version: 2}, {Seq: 8, Version: 3}}
	got := s.unused()
	if len(got) != 1 || got[0].Version != 1 {
		t.Errorf("unused %v, want version 1 alone", got)
	}
}

// A version is kept for its games, for the groups that are ready, and for the batches that are not trained on yet.
func TestVersionsAreKeptUntilTheirStepsAreCompleted(t *testing.T) {
	t.Parallel()
	s := newRunState(demoSpec(), time.Time{})
	s.Version = 1
	first := s.launch()
	s.Version = 2
	s.launch()
	for _, state := range []struct {
		name    string
		becomes func()
		oldest  rollout.PolicyVersion
	}{
		{"playing", func() {}, 1},
		{"ready", func() { s.end(first.Seq, "") }, 1},
		{"claimed", func() { s.reconcile(buffer.Account{Highest: 1, ClaimedTo: 1}, []rollout.GroupSeq{first.Seq}) }, 1},
		{"another step is claimed", func() { s.reconcile(buffer.Account{Highest: 1, ClaimedTo: 2}, nil) }, 1},
		{"completed", func() { s.reconcile(buffer.Account{Highest: 1, ClaimedTo: 2, NextStep: 1}, nil) }, 2},
	} {
		state.becomes()
		if got := s.oldestNeeded(); got != state.oldest {
			t.Errorf("%s: the oldest version needed is %d, want %d", state.name, got, state.oldest)
		}
	}
	s.Version = 3
	s.end(1, "deadline")
	if got := s.oldestNeeded(); got != 3 {
		t.Errorf("after a group was dropped version %d is needed, want 3", got)
	}
}

func TestValidateChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change rollout.Change
		ok     bool
	}{
		{"deeper", rollout.Change{Depth: ptr(4)}, true},
		{"pause", rollout.Change{Paused: ptr(true)}, true},
		{"nothing", rollout.Change{}, false},
		{"no depth", rollout.Change{Depth: ptr(0)}, false},
		{"absurd depth", rollout.Change{Depth: ptr(1000)}, false},
		{"more samples than children allow", rollout.Change{GroupsPerStep: ptr(1400)}, false},
		{"fewer samples than the minimum", rollout.Change{Samples: ptr(1)}, false},
		{"fewer samples and minimum", rollout.Change{Samples: ptr(1), MinSamples: ptr(1)}, true},
		{"negative staleness", rollout.Change{MaxStaleness: ptr(int64(-1))}, false},
		{"steps already claimed", rollout.Change{Steps: ptr(1)}, false},
		{"unknown policy", rollout.Change{OnStale: ptr(rollout.OnStale("burn"))}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newRunState(demoSpec(), time.Time{})
			s.Claimed = 2
			err := validateChange(s, tt.change)
			if (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
			if err != nil && !rollout.Refused(err, rollout.Invalid) {
				t.Errorf("%v is not an Invalid refusal", err)
			}
		})
	}
	over := newRunState(demoSpec(), time.Time{})
	over.State = rollout.RunCompleted
	if err := validateChange(over, rollout.Change{Depth: ptr(3)}); !rollout.Refused(err, rollout.RunOver) {
		t.Errorf("a finished run took a change: %v", err)
	}
}

func TestValidatePublication(t *testing.T) {
	t.Parallel()
	s := newRunState(demoSpec(), time.Time{})
	s.Version = 2
	s.Policies = []rollout.Policy{
		{Version: 1, Path: "/a/1", State: rollout.PolicyRetired},
		{Version: 2, Path: "/a/2", State: rollout.PolicyServing},
		{Version: 3, Path: "/a/3", State: rollout.PolicyRejected},
	}
	for _, tt := range []struct {
		name string
		p    Publication
		code rollout.RefusalCode
	}{
		{"the next one, after a rejection", Publication{3, "/a/3b"}, ""},
		{"the same again", Publication{2, "/a/2"}, ""},
		{"the same from elsewhere", Publication{2, "/b/2"}, rollout.Conflict},
		{"a version too far", Publication{4, "/a/4"}, rollout.OutOfOrder},
		{"no path", Publication{3, " "}, rollout.Invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := validatePublication(s, tt.p)
			if tt.code == "" && err != nil || tt.code != "" && !rollout.Refused(err, tt.code) {
				t.Errorf("got %v, want %q", err, tt.code)
			}
		})
	}
}

func TestGroupSeedsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	for seed := range int64(3) {
		for seq := range rollout.GroupSeq(1000) {
			s := groupSeed(seed, seq)
			if s < 0 || seen[s] {
				t.Fatalf("seed %d of group %d is negative or repeated", s, seq)
			}
			seen[s] = true
		}
	}
}

// A run whose groups all fail launches more and more rarely, until one does not fail or somebody changes it. Groups
// that were let go of say nothing.
func TestFailingRunsPause(t *testing.T) {
	t.Parallel()
	s := newRunState(demoSpec(), time.Time{})
	whole := s.Spec.Buffer.Outstanding()
	for _, tt := range []struct {
		groups int
		code   string
		want   time.Duration
	}{
		{whole - 1, "timeout", 0},
		{1, "timeout", time.Second},
		{whole, "model_not_served", 2 * time.Second},
		{10 * whole, "cancelled", 2 * time.Second},
		{10 * whole, "vanished", 2 * time.Second},
		{whole, "timeout", 4 * time.Second},
		{100 * whole, "timeout", mostRespite},
		{1, "zero_variance", 0},
		{whole, "timeout", time.Second},
		{1, "", 0},
	} {
		for range tt.groups {
			s.end(s.launch().Seq, tt.code)
		}
		if got := s.respite(); got != tt.want {
			t.Errorf("after %d groups more with %q: %v, want %v", tt.groups, tt.code, got, tt.want)
		}
	}
	for range whole {
		s.end(s.launch().Seq, "timeout")
	}
	s.apply(rollout.Change{Depth: new(int)})
	if s.respite() != 0 {
		t.Error("a changed run still pauses")
	}
}
