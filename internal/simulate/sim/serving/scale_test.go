package serving

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// observer watches what runs get of a fleet.
type observer struct {
	*players
	work      map[rollout.RunName]int
	longest   time.Duration // wait in the queue
	cacheable int           // prompt tokens that would be cached if every game stayed on one engine
}

func (o *observer) Answered(now time.Duration, tag uint64, a Answer) {
	q := &o.games[tag]
	if o.left > 0 { // later on, runs have nothing more to ask
		o.work[q.ref.Run] += a.Prompt + 2*a.Output // as dispatch counts it
	}
	o.longest = max(o.longest, a.Sent-a.Submitted)
	shared := o.shared
	if q.turn > 0 {
		shared = o.sharedInAGroup
	}
	o.cacheable += shared / 16 * 16
	o.players.Answered(now, tag, a)
}

// TestLawsAtScale: 64 engines with 256 requests in flight each, and four runs that together want half as much again.
// Runs get equal work, nobody waits for longer than older groups need, games stay where their prefix is, and what is
// in flight bounds what is held.
func TestLawsAtScale(t *testing.T) {
	if testing.Short() {
		t.Skip("plays 240,000 requests")
	}
	t.Parallel()
	const engines, inFlight, requests = 64, 256, 240_000
	w := reference
	w.groups, w.runs, w.turns = engines*inFlight/w.games*3/2, 4, 4
	a := virtualtime.NewAgenda()
	f := a100Fleet(a, engines, inFlight)
	p := newPlayers(a, f, w, requests)
	o := &observer{players: p, work: map[rollout.RunName]int{}}
	p.client = o
	p.start()
	playOut(a)
	got := f.Totals()
	most, least := 0, 1<<60
	for _, n := range o.work {
		most, least = max(most, n), min(least, n)
	}
	if len(o.work) != w.runs || float64(most) > 1.02*float64(least) {
		t.Errorf("runs got from %d to %d of work: %v", least, most, o.work)
	}
	// A group waits until places are free that older groups have, and these need so long:
	game := time.Duration(float64(w.turns) * got.InFlightSec / float64(got.Completed) * float64(time.Second))
	if o.longest > game*3/2 {
		t.Errorf("a request waited for %v; a game takes %v", o.longest, game)
	}
	if share := float64(got.Cached) / float64(o.cacheable); share < 0.95 {
		t.Errorf("%.3f of what games share was found in caches", share)
	}
	if got.Completed != requests || got.Held != 0 || len(f.slots) > w.groups*w.games {
		t.Errorf("%d completed, %d held, memory for %d", got.Completed, got.Held, len(f.slots))
	}
	t.Logf("work from %d to %d, longest wait %v, game %v, cached %.3f of the cacheable, engines busy %.3f", least, most,
		o.longest, game, float64(got.Cached)/float64(o.cacheable), got.BusySec/got.EngineSec)
}

// TestCostIsLinear: ten times the requests are ten times the events, and take no more memory than is in flight.
// Times are the benchmarks'.
func TestCostIsLinear(t *testing.T) {
	t.Parallel()
	w := reference
	w.groups = 20
	play := func(requests int64) (events float64) {
		a := virtualtime.NewAgenda()
		f := a100Fleet(a, 4, 20) // and so a third of the requests wait
		newPlayers(a, f, w, requests).start()
		pending := 0
		for a.Step() {
			pending = max(pending, a.Pending())
		}
		if inPlay := w.groups * w.games; len(f.slots) > inPlay || pending > inPlay+10 {
			t.Errorf("%d requests: memory for %d, %d events pending; %d are in play", requests, len(f.slots), pending, inPlay)
		}
		return float64(a.Events()) / float64(requests)
	}
	few, many := play(4_000), play(40_000)
	t.Logf("%.2f and %.2f events for a request", few, many)
	if many > 1.03*few {
		t.Errorf("a request of many takes %.2f events, one of few %.2f", many, few)
	}
}
