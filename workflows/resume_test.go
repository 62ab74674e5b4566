package workflows

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// A lost run goes on where its status and the buffer's account, each of which may be behind the other, say that it was.
func TestALostRunGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	begun, now := time.Unix(1000, 0), time.Unix(9000, 0)
	spec := rollout.Spec{Name: "demo", Steps: 50}
	changed := spec
	changed.Steps = 60
	s := resumed(Lost{
		Spec: spec,
		Status: rollout.RunStatus{
			Spec: changed, State: rollout.RunLost, StartedAt: begun, PolicyVersion: 26, Launched: 40,
			Policies: []rollout.Policy{{Version: 24, State: rollout.PolicyRetired}, {Version: 25, State: rollout.PolicyServing}},
		},
		Account: buffer.Account{
			Highest: 41, NextStep: 27, ClaimedTo: 28, Version: 27,
			Queued: []rollout.GroupSeq{41}, InFlight: []rollout.GroupSeq{39}, Ready: []rollout.GroupSeq{40, 38},
		},
	}, now)
	if s.State != rollout.RunRunning || s.Version != 27 || s.Completed != 27 || s.Claimed != 28 || s.NextSeq != 42 || s.Spec.Steps != 60 {
		t.Errorf("it goes on as %+v", s)
	}
	if len(s.Playing) != 2 || s.Playing[0].Seq != 39 || !slices.Equal(s.Ready, []rollout.GroupSeq{38, 40}) || s.oldestNeeded() != 25 {
		t.Errorf("playing %v, ready %v, oldest version needed %d", s.Playing, s.Ready, s.oldestNeeded())
	}
	if s := resumed(Lost{Status: rollout.RunStatus{StartedAt: begun, Launched: 4}, Account: buffer.Account{Highest: 2, InFlight: []rollout.GroupSeq{0, 2}},
		Unheard: []rollout.GroupSeq{1, 3}}, now); s.NextSeq != 4 || !slices.Equal(seqsOf(s.Playing), []rollout.GroupSeq{0, 1, 2, 3}) {
		t.Errorf("launches that have not arrived are forgotten: %+v", s)
	}
	if s := resumed(Lost{Spec: spec}, now); s.Spec.Steps != 50 || s.NextSeq != 1 && s.NextSeq != 0 || s.StartedAt != now {
		t.Errorf("one that was lost before its first word goes on as %+v", s)
	}
}

// What a lost execution launched counts as outstanding when it arrives, however late; what has ended while the buffer
// was asked does not come back.
func TestLaunchesThatArriveLateAreAdopted(t *testing.T) {
	t.Parallel()
	s := newRunState(demoSpec(), time.Time{})
	s.Version, s.Policies = 3, []rollout.Policy{{Version: 2, State: rollout.PolicyServing}, {Version: 3, State: rollout.PolicyServing}}
	for range 4 {
		s.launch()
	}
	known := s.known()
	s.end(1, "deadline")
	s.adopt(buffer.Account{Queued: []rollout.GroupSeq{7, 1}, InFlight: []rollout.GroupSeq{0, 5}, Ready: []rollout.GroupSeq{6, 2}}, nil, known)
	if !slices.Equal(seqsOf(s.Playing), []rollout.GroupSeq{0, 2, 3, 5, 7}) || !slices.Equal(s.Ready, []rollout.GroupSeq{6}) {
		t.Errorf("playing %v, ready %v", s.Playing, s.Ready)
	}
	if s.oldestNeeded() != 2 {
		t.Errorf("the engines keep version %d and newer; a group of unknown version may be of version 2", s.oldestNeeded())
	}
}
