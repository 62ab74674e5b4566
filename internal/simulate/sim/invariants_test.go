package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// checkInvariants holds a simulation to what must be so after every event.
func checkInvariants(t *testing.T) func(*pipeline) {
	var last time.Duration
	return func(p *pipeline) {
		t.Helper()
		if p.now() < last {
			t.Fatalf("time goes back, from %v to %v", last, p.now())
		}
		last = p.now()
		if n := p.agenda.Events(); n > 20_000 && n%64 > 0 {
			return // a long run is looked at now and then
		}
		checkGroups(t, p)
		checkRequests(t, p)
		checkEngines(t, p)
		if t.Failed() {
			t.Fatalf("at %v, after %d events", p.now(), p.agenda.Events())
		}
	}
}

// checkGroups: each group is in exactly one state, and the run's account is the buffer's.
func checkGroups(t *testing.T, p *pipeline) {
	t.Helper()
	a, c := p.buffer.Account(), p.buffer.Counts()
	m := p.run.machine
	if sum := c.Queued + c.InFlight + c.Ready + c.Claimed + c.Completed + c.Dropped; sum != int64(a.Highest)+1 {
		t.Errorf("%d groups were launched, and %d counted: %+v", a.Highest+1, sum, c)
	}
	inPlay := slices.Concat(a.Queued, a.InFlight)
	slices.Sort(inPlay)
	for _, seq := range slices.Concat(inPlay, a.Ready) {
		_, played := p.groups[seq]
		if ready := slices.Contains(a.Ready, seq); played == ready {
			t.Errorf("group %d: played %v, ready %v", seq, played, ready)
		}
	}
	if p.run.wait == nil || m.Awake() {
		return // the run has yet to look
	}
	var playing []rollout.GroupSeq
	for _, g := range m.Playing {
		playing = append(playing, g.Seq)
	}
	slices.Sort(playing)
	if !slices.Equal(playing, inPlay) {
		t.Errorf("the run thinks that %v are in play; the buffer, that %v are", playing, inPlay)
	}
	for _, seq := range a.Ready {
		if !slices.Contains(m.Ready, seq) {
			t.Errorf("group %d is ready, and the run does not know", seq)
		}
	}
}

// checkRequests: requests and tokens are conserved, and the workers play no more games than they have slots.
func checkRequests(t *testing.T, p *pipeline) {
	t.Helper()
	x := p.fleet.Totals()
	if x.Submitted != x.Completed+x.Rejected+x.Cancelled+x.Held || x.Held < 0 {
		t.Errorf("%d requests submitted, %d completed, %d rejected, %d cancelled, %d held", x.Submitted, x.Completed,
			x.Rejected, x.Cancelled, x.Held)
	}
	if x.Completed != p.answers {
		t.Errorf("%d requests completed, and %d answers came", x.Completed, p.answers)
	}
	playing, open := 0, int64(0)
	for _, g := range p.groups {
		for _, a := range g.playing {
			if a.group != g {
				t.Errorf("game %d/%d is another's", g.seq, a.sample)
			}
			if a.state != gameWaits {
				playing++
			}
			if a.state == gameAsks || a.state == gameFails {
				open += int64(a.missing)
			}
		}
	}
	if playing != p.slots.used || p.slots.limit > 0 && playing > p.slots.limit {
		t.Errorf("%d games are played, with %d of %d slots", playing, p.slots.used, p.slots.limit)
	}
	if open < x.Held || open > x.Held && x.Rejected == 0 { // that a request is rejected is heard a moment later
		t.Errorf("games wait for %d answers, and %d requests are held", open, x.Held)
	}
}

// checkEngines: no engine has more than it can hold.
func checkEngines(t *testing.T, p *pipeline) {
	t.Helper()
	limit := p.setup.Fleet.MaxInFlight
	if limit == 0 {
		limit = DefaultMaxInFlight
	}
	for _, e := range p.engines {
		st := e.model.Stats()
		if e.state == engineLost || e.state == engineCold {
			continue
		}
		if st.Running+st.Waiting > limit {
			t.Errorf("engine %s has %d requests, of at most %d", e.id, st.Running+st.Waiting, limit)
		}
		if most := p.setup.Fleet.MaxNumSeqs; most > 0 && st.Running > most && p.options.NewEngine == nil {
			t.Errorf("engine %s runs %d requests at once, of at most %d", e.id, st.Running, most)
		}
		if st.KVRoom > 0 && st.KV > st.KVRoom {
			t.Errorf("engine %s holds %d tokens, of at most %d", e.id, st.KV, st.KVRoom)
		}
	}
}
