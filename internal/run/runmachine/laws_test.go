package runmachine

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// FuzzLaws lets groups end, trainers claim, operators change and engines fail in any order, and checks after each event
// what must hold whatever happens.
func FuzzLaws(f *testing.F) {
	f.Add([]byte{0x21, 0, 0, 0, 3, 3, 3, 16, 1, 2, 24, 6, 3, 3, 3, 1, 2, 31, 7})
	f.Add([]byte{0x55, 0, 3, 3, 3, 3, 3, 3, 1, 5, 9, 6, 14, 22, 2, 4, 12, 5, 13, 8, 3, 11, 3, 1, 2, 10, 15, 23})
	f.Add([]byte{0x0a, 6, 3, 3, 11, 11, 1, 6, 2, 1, 3, 3, 6, 2, 9, 17, 25, 33, 12, 20, 28, 36, 7})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 2 || len(program) > 200 {
			return
		}
		first, second := lawful(t, program), lawful(t, program)
		if !slices.Equal(first, second) {
			t.Errorf("the same events brought\n%v\nand\n%v", first, second)
		}
	})
}

// lawful plays a program and returns what the machine did.
func lawful(t *testing.T, program []byte) []string {
	size := int(program[0])
	spec := runspec.Spec{
		Name: "demo", Steps: 4 + size%4, Group: runspec.GroupSpec{Samples: 1, MinSamples: 1},
		Buffer: runspec.BufferSpec{
			Depth: 1 + size>>2%3, GroupsPerStep: 1 + size>>4%3, MaxStaleness: int64(size >> 6), OnStale: runspec.DropStale,
		},
	}
	spec.League = runspec.League{Slots: size % 3, Pool: runspec.LostOpponents}
	w := newWorld(spec)
	w.check = func(task Task) { w.checkTask(t, task) }
	w.twice(t, Began{New: true})
	for i, b := range program[1:] {
		w.move(t, b%8, int(b/8), fmt.Sprint(i))
		w.checkPlaces(t)
	}
	w.fails, w.holds = "", ""
	w.release(false)
	for seq := range w.m.NextSeq {
		if at := w.groups[seq]; at != queued && at != inFlight && !w.gone[seq] {
			w.event(GroupEnded{Seq: seq}) // Temporal delivers each in the end
		}
	}
	w.pass(time.Minute)
	w.checkCounts(t)
	return w.log
}

// move is one thing that happens; n says to whom.
func (w *world) move(t *testing.T, kind byte, n int, id string) {
	var seq rollout.GroupSeq
	if len(w.m.Playing) > 0 {
		seq = w.m.Playing[n%len(w.m.Playing)].Seq
	}
	switch kind {
	case 0:
		w.pass(time.Duration(n) * time.Second)
	case 1:
		if w.claim() && n%2 == 0 {
			w.twice(t, BufferChanged{})
		}
	case 2:
		if w.completed < len(w.claimed) {
			w.completed++
			w.twice(t, BufferChanged{})
		}
	case 3:
		if w.commit(seq); w.groups[seq] == ready && n%4 != 0 {
			score := float64(n%5) / 4
			w.twice(t, GroupEnded{Seq: seq, ZeroVariance: n%3 == 0, Score: &score})
		}
	case 4:
		if at := w.groups[seq]; at == queued || at == inFlight {
			w.groups[seq] = dropped
			w.twice(t, GroupEnded{Seq: seq, Code: "timeout"})
		}
	case 5:
		changed := w.m.Spec
		changed.Buffer.Depth = 1 + n%4
		paused := n%5 == 0
		w.twice(t, Changed{ID: id, Spec: changed, Paused: &paused, Text: "set"})
	case 6:
		w.loading = nil
		if n%4 == 1 {
			w.loading = &Fault{Code: rollout.Unavailable, Text: "no"}
		}
		w.twice(t, PublishAsked{ID: id, Version: w.m.Version + 1, Path: "/v"})
	default:
		w.disturb(t, n, seq)
	}
}

// disturb is what goes wrong, and the end.
func (w *world) disturb(t *testing.T, n int, seq rollout.GroupSeq) {
	switch n % 6 {
	case 0:
		w.twice(t, StopAsked{Reason: "enough"})
	case 1:
		if at := w.groups[seq]; at == queued || at == inFlight {
			w.gone[seq] = true
			w.twice(t, GroupClosed{Seq: seq})
		}
	case 2:
		w.holds = []string{"ReadAccount", "Release", "Load", "Launch"}[n/6%4]
	case 3:
		w.release(n%4 == 3)
	case 4:
		w.fails = []string{"", "ReadAccount", "Release", "Retire", "LookFor"}[n/6%5]
	default:
		if w.wait != nil && len(w.awaits)+len(w.held) == 0 && len(w.m.publishing) == 0 {
			if err := w.cut(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// twice tells an event, and once more: the second time changes nothing.
func (w *world) twice(t *testing.T, ev Event) {
	commands := w.m.Handle(w.now, ev)
	before, _ := json.Marshal(w.m.Run)
	again := w.m.Handle(w.now, ev)
	if after, _ := json.Marshal(w.m.Run); len(again) > 0 || string(after) != string(before) {
		t.Errorf("%T, told twice, brought %v and\n%s\nof\n%s", ev, again, after, before)
	}
	w.perform(commands)
	w.runUntilIdle()
}

// checkTask is what holds for what the machine asks for.
func (w *world) checkTask(t *testing.T, task Task) {
	if launch, ok := task.(Launch); ok {
		room, _ := w.m.room()
		if w.m.outstanding() > room || w.m.State != runstatus.RunRunning {
			t.Errorf("a run that is %s has %d groups outstanding, with room for %d", w.m.State, w.m.outstanding(), room)
		}
		for _, g := range launch.Groups {
			if w.launches[g.Seq] > 0 {
				t.Errorf("group %d is launched twice", g.Seq)
			}
			v, is := rollout.VersionOfPlayer(g.Opponent)
			if p := w.m.Policy(v); is && v > 0 && (p == nil || p.State != runstatus.PolicyServing) {
				t.Errorf("group %d is launched against version %d, which does not serve", g.Seq, v)
			}
			if n := len(w.m.League.Members); n > w.m.Spec.League.Slots {
				t.Errorf("the league keeps %d versions in %d slots", n, w.m.Spec.League.Slots)
			}
		}
	}
	if retire, ok := task.(Retire); ok && !w.m.State.Over() {
		for seq, at := range w.groups {
			needed := at == queued || at == inFlight || at == ready || at == claimed && w.untrained(seq)
			plays := at == queued || at == inFlight
			if v, is := rollout.VersionOfPlayer(w.opponents[seq]); plays && is && v.Adapter("demo") == retire.Adapter {
				t.Errorf("%s is retired, and plays against group %d, which is %s", retire.Adapter, seq, at)
			}
			if needed && w.versions[seq].Adapter("demo") == retire.Adapter {
				t.Errorf("%s is retired, and group %d, which is %s, needs it", retire.Adapter, seq, at)
			}
		}
	}
}

// untrained reports whether a group is in a batch whose step is not completed.
func (w *world) untrained(seq rollout.GroupSeq) bool {
	return slices.Contains(slices.Concat(w.claimed[w.completed:]...), seq)
}

// checkPlaces holds that no group is counted in two places.
func (w *world) checkPlaces(t *testing.T) {
	seqs := w.m.known()
	slices.Sort(seqs)
	if len(slices.Compact(slices.Clone(seqs))) != len(seqs) {
		t.Errorf("playing %v, ready %v", w.m.Playing, w.m.Ready)
	}
}

// checkCounts holds that every launched group is in exactly one place, when the run has had time to find out where.
func (w *world) checkCounts(t *testing.T) {
	if w.m.State.Over() {
		return
	}
	counted := w.m.outstanding() + w.m.Spec.Buffer.GroupsPerStep*len(w.claimed)
	for _, n := range w.m.Failures {
		counted += int(n)
	}
	if counted != int(w.m.NextSeq) {
		t.Errorf("%d groups launched, and %d counted: %s", w.m.NextSeq, counted, account(w.m))
	}
}

// Under drop and wait, a group launched into the room that there is can be trained on in time, if the trainer publishes
// once per step and takes the oldest groups first.
func FuzzRoomKeepsGroupsFresh(f *testing.F) {
	f.Add(uint8(2), uint8(1), uint8(0), []byte{1, 1, 0, 1})
	f.Add(uint8(7), uint8(3), uint8(2), []byte{0, 1, 0, 1, 1, 1, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, depth, perStep, staleness uint8, moves []byte) {
		b := runspec.BufferSpec{
			Depth: int(depth%8) + 1, GroupsPerStep: int(perStep%5) + 1, MaxStaleness: int64(staleness % 6),
			OnStale: runspec.DropStale,
		}
		w := newWorld(runspec.Spec{Name: "demo", Steps: 1 << 20, Buffer: b})
		w.event(Began{New: true})
		for i, move := range moves {
			w.pass(10 * time.Second)
			for _, g := range slices.Clone(w.m.Playing) {
				w.commit(g.Seq)
			}
			switch {
			case move%2 == 0 && len(w.claimed) <= w.completed+1 && w.claim():
				for _, seq := range w.claimed[len(w.claimed)-1] {
					if behind := int64(w.m.Version - w.versions[seq]); behind > b.MaxStaleness {
						t.Fatalf("group %d is claimed, %d versions behind of at most %d", seq, behind, b.MaxStaleness)
					}
				}
			case move%2 == 1 && w.completed < len(w.claimed): // a version is published, and its step's record put
				w.event(PublishAsked{ID: fmt.Sprint(i), Version: w.m.Version + 1, Path: "/v"})
				w.completed++
			}
			w.event(BufferChanged{})
		}
	})
}
