package axiom

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// batchDelivery is what becomes of one batch, over as many answers as it takes. It sends nothing itself: send asks for
// what next says, and tells answered what came.
//
// An event is refused only beside others that pass, before it and after it: a sink that takes nothing at all says
// nothing about one event, and then what was not delivered of the batch stays where it is.
type batchDelivery struct {
	rows  []row
	fates []fate
	parts []part // to be sent; the last is next
	try   int    // of the next part
	// passed says that Axiom took some event since the batch was begun.
	passed   bool
	sampled  bool
	blind    part         // events that were refused since one passed
	witness  int          // an event that passed
	doubts   map[int]bool // events that were refused once, alone
	tooLarge int          // bytes of the smallest request that was too large; 0: none was
	round    int          // how often the batch was left before because nothing passed
}

// fate is the outcome of an event.
type fate struct {
	known   bool
	refusal string // why Axiom did not take it; empty: it did
	sure    bool   // Axiom said so of this event, or has refused it twice
}

// part is events that are sent together: places in the batch.
type part []int

// maxBlind is how many events are refused, with none that passes, before it is looked whether anything passes.
const maxBlind = 8

func newDelivery(rows []row, round int) *batchDelivery {
	d := &batchDelivery{rows: rows, fates: make([]fate, len(rows)), witness: -1,
		doubts: map[int]bool{}, round: round}
	all := part{}
	for i, r := range rows {
		if r.refusal != "" {
			d.fates[i] = fate{known: true, refusal: r.refusal, sure: true}
			continue
		}
		all = append(all, i)
	}
	d.push(all)
	return d
}

func (d *batchDelivery) push(p part) {
	if len(p) > 0 {
		d.parts = append(d.parts, p)
	}
}

// next is what to send; nil when every event has its fate.
func (d *batchDelivery) next() part {
	if len(d.parts) == 0 {
		return nil
	}
	return d.parts[len(d.parts)-1]
}

// lines is a part as it is sent.
func (d *batchDelivery) lines(p part) [][]byte {
	lines := make([][]byte, len(p))
	for i, at := range p {
		lines[i] = d.rows[at].line
	}
	return lines
}

// answered takes what came of sending next, and says what to do before the next sending. Where it says park, the
// batch is to be left: what was delivered of it is, and nothing of it may be called refused.
func (d *batchDelivery) answered(a answer, now time.Time, jitter float64) reaction {
	p := d.next()
	r := react(a, len(p), d.try, now, jitter)
	if a.status == 413 {
		d.noteTooLarge(p)
	}
	switch r.act {
	case again:
		d.try++
		return r
	case park:
		return r
	}
	d.parts, d.try = d.parts[:len(d.parts)-1], 0
	switch r.act {
	case accounted:
		d.account(p, a)
	case split:
		d.halve(p)
	case sample:
		d.sample(p)
	case refused:
		d.refuse(p[0], r.reason, d.doubts[p[0]])
	}
	return d.seen(r)
}

// account gives the events of an answered part their fates.
func (d *batchDelivery) account(p part, a answer) {
	rest, unexplained := p, a.failed
	if a.failed > 0 {
		rest, unexplained = d.explain(p, a)
	}
	switch {
	case unexplained == 0:
		for _, i := range rest {
			d.fates[i] = fate{known: true}
			d.passed, d.witness = true, i
		}
	case unexplained >= int64(len(rest)):
		for _, i := range rest {
			d.refuse(i, reasonOf(a), true)
		}
	default:
		d.passed = true
		d.halve(rest) // some of these failed, and which is not said: those that passed arrive twice
	}
	if a.ingested > 0 {
		d.blind = nil
	}
}

// reasonOf is why events failed that have no failure of their own.
func reasonOf(a answer) string {
	if len(a.failures) > 0 {
		return a.failures[0].reason
	}
	return "Axiom gives no reason"
}

// explain gives the failures that name an event to it, and returns the other events and how many of these failed.
func (d *batchDelivery) explain(p part, a answer) (rest part, unexplained int64) {
	times := newTimes(d.rows, p)
	failed := map[int]bool{}
	for _, f := range a.failures {
		i, found := times.find(f.at)
		if !found || failed[i] || int64(len(failed)) == a.failed {
			continue
		}
		failed[i] = true
		d.refuse(i, f.reason, true)
	}
	for _, i := range p {
		if !failed[i] {
			rest = append(rest, i)
		}
	}
	return rest, a.failed - int64(len(failed))
}

// halve sends a part in two, the first half next.
func (d *batchDelivery) halve(p part) {
	if len(p) == 1 {
		d.push(p)
		return
	}
	half := len(p) / 2
	d.push(p[half:])
	d.push(p[:half])
}

// sample sends some single events of a part before the rest: of each kind one, as far as it goes, and others from all
// over it, at other places in each round, so that what passes is met sooner or later however much does not. If anything
// has passed already, what is refused is searched for by halves at once.
func (d *batchDelivery) sample(p part) {
	if d.passed || d.sampled {
		d.halve(p)
		return
	}
	d.sampled = true
	chosen := d.choose(p)
	var rest part
	for _, at := range p {
		if !slices.Contains(chosen, at) {
			rest = append(rest, at)
		}
	}
	d.push(rest)
	for _, at := range slices.Backward(chosen) {
		d.push(part{at})
	}
}

// choose picks up to maxBlind events of a part, by chance that the round seeds: others in every round, and in the same
// round always the same.
func (d *batchDelivery) choose(p part) part {
	shuffled := slices.Clone(p)
	chance := rand.New(rand.NewPCG(uint64(d.round), uint64(len(p))))
	chance.Shuffle(len(p), func(i, k int) { shuffled[i], shuffled[k] = shuffled[k], shuffled[i] })
	kinds := map[string]bool{}
	var chosen, others part
	for _, at := range shuffled {
		if kind := d.rows[at].record.Kind; !kinds[kind] {
			kinds[kind] = true
			chosen = append(chosen, at)
			continue
		}
		others = append(others, at)
	}
	return append(chosen, others...)[:min(maxBlind, len(p))]
}

func (d *batchDelivery) refuse(i int, reason string, sure bool) {
	d.fates[i] = fate{true, reason, sure}
	d.blind = append(d.blind, i)
}

// seen judges what is known so far. Events that were refused while nothing passed may be as good as any: after some of
// them, and after the last, one is sent again that has passed before. If it does not any more, or none ever did, the
// refused ones are open again.
func (d *batchDelivery) seen(r reaction) reaction {
	if len(d.blind) == 0 && len(d.parts) == 0 {
		d.makeSure()
	}
	tooSoon := len(d.blind) < maxBlind || d.passed && d.witness < 0 // some have passed, and which is not known yet
	if len(d.blind) == 0 || tooSoon && len(d.parts) > 0 {
		return r
	}
	if d.witness >= 0 && !slices.Contains(d.blind, d.witness) {
		d.push(part{d.witness})
		return r
	}
	reason := d.fates[d.blind[len(d.blind)-1]].refusal
	for _, i := range d.blind {
		d.fates[i] = fate{}
		delete(d.doubts, i)
	}
	if d.witness >= 0 { // it passed before, and is not to be sent for its own sake
		d.fates[d.witness] = fate{known: true}
		d.blind = slices.DeleteFunc(d.blind, func(i int) bool { return i == d.witness })
	}
	d.push(d.blind)
	d.blind = nil
	advice := refusedAdvice
	if fieldLimit(reason) {
		advice = fieldLimitAdvice
	}
	return reaction{park, parkPause, telemetry.SinkParked,
		fmt.Sprintf("Axiom refuses every event that waits; the last: %s", reason), advice}
}

// makeSure sends events that were refused alone once more, now that others pass: the refusal may have been a short one
// of everything.
func (d *batchDelivery) makeSure() {
	for i, f := range d.fates {
		if f.refusal != "" && !f.sure {
			d.fates[i] = fate{}
			d.doubts[i] = true
			d.push(part{i})
		}
	}
}

func (d *batchDelivery) noteTooLarge(p part) {
	size := 0
	for _, i := range p {
		size += len(d.rows[i].line)
	}
	if d.tooLarge == 0 || size < d.tooLarge {
		d.tooLarge = size
	}
}

// refusals is the events that were refused, by their places in the batch.
func (d *batchDelivery) refusals() map[int]string {
	out := map[int]string{}
	for i, f := range d.fates {
		if f.refusal != "" {
			out[i] = f.refusal
		}
	}
	return out
}

// times finds the events of a part by their times, in microseconds.
type times map[int64]int

func newTimes(rows []row, p part) times {
	t := times{}
	for _, i := range p {
		t[rows[i].at/1e3] = i
	}
	return t
}

// find is the event that a failure means. A time without digits below the millisecond may have lost them, and means
// none: whose failures are not found are searched for by halves.
func (t times) find(text string) (place int, found bool) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.UnixNano()%1e6 == 0 {
		return 0, false
	}
	place, found = t[at.UnixNano()/1e3]
	return place, found
}
