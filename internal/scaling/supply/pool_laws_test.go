package supply

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// FuzzPool plays a pool in a world in which commands are performed not at all, once, twice or long after they were
// given up, their answers are lost, the provider lists what was, engines die and machines are taken from it, operators
// drain and remove engines, and Redis forgets. Then the world calms down, and there must be what is wanted, and nothing
// else.
func FuzzPool(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint16(60+seed*10))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		w := newWorld(t, seed)
		for range steps % 600 {
			w.chaos()
			w.round()
		}
		w.calm()
	})
}

// world is a provider, a fleet and the driver of a pool.
type world struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	state   State
	wanted  int
	clouds  map[rollout.EngineID]*cloudEngine
	stale   []provider.Instance // what a list that lags says
	staleAt time.Time
	fleet   map[rollout.EngineID]*fleetMember
	removed map[rollout.EngineID]bool // taken out by hand
	late    []Command                 // given up, and performed at some time
	result  []Result
	log     []string

	refuses, silent, lags bool
	belated               bool // what is performed now was given up, and decided on when the world was another
	crashes               int  // one in so many engines dies while it starts; 0: none
}

type cloudEngine struct {
	state    enginestate.EngineState
	since    time.Time
	leavesAt time.Time
}

type fleetMember struct {
	state    enginestate.EngineState
	drain    bool
	recalled bool
	leave    bool
	inFlight int
	since    time.Time
	drainsAt time.Time
	served   bool
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: origin, state: New().State, wanted: 2,
		clouds: map[rollout.EngineID]*cloudEngine{}, fleet: map[rollout.EngineID]*fleetMember{},
		removed: map[rollout.EngineID]bool{}}
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%6.1fs ", w.now.Sub(origin).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-80):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

// one is true once in n.
func (w *world) one(n int) bool { return w.r.IntN(n) == 0 }

// some is an element, if there is any.
func some[T any](w *world, of map[rollout.EngineID]T) (id rollout.EngineID, ok bool) {
	all := sorted(of)
	if len(all) == 0 {
		return "", false
	}
	return all[w.r.IntN(len(all))], true
}

func sorted[T any](of map[rollout.EngineID]T) []rollout.EngineID { return slices.Sorted(maps.Keys(of)) }

// chaos lets something happen that nobody has asked for.
func (w *world) chaos() {
	w.now = w.now.Add(time.Duration(100+w.r.IntN(3000)) * time.Millisecond)
	if w.one(12) {
		w.now = w.now.Add(time.Duration(w.r.IntN(120)) * time.Second)
	}
	if w.one(8) {
		w.wanted = w.r.IntN(5)
		w.say("wanted %d", w.wanted)
	}
	w.refuses = w.refuses && !w.one(4) || w.one(20)
	w.silent = w.silent && !w.one(3) || w.one(25)
	w.lags = w.lags && !w.one(3) || w.one(10)
	w.crashes = []int{0, 0, 2, 4}[w.r.IntN(4)]
	if id, ok := some(w, w.clouds); ok && w.one(25) {
		w.say("%s dies", id)
		w.clouds[id].state = enginestate.EngineFailed
	}
	if id, ok := some(w, w.clouds); ok && w.one(40) && w.clouds[id].leavesAt.IsZero() {
		w.say("the machine of %s leaves", id)
		w.clouds[id].leavesAt = w.now.Add(time.Duration(20+w.r.IntN(100)) * time.Second)
	}
	if id, ok := some(w, w.clouds); ok && w.one(60) {
		w.say("somebody deletes %s", id)
		delete(w.clouds, id)
	}
	if id, ok := some(w, w.fleet); ok && w.one(40) {
		w.say("an operator drains %s", id)
		w.drain(id, false)
	}
	if id, ok := some(w, w.fleet); ok && w.one(60) {
		w.say("an operator removes %s", id)
		w.drain(id, w.one(2))
		w.fleet[id].leave, w.removed[id] = true, true
	}
	if id, ok := some(w, w.fleet); ok && w.one(40) {
		w.say("an operator wants %s back", id)
		m := w.fleet[id]
		m.drain, m.recalled, m.leave, m.drainsAt = false, false, false, time.Time{}
	}
	if w.one(80) {
		w.say("Redis forgets")
		w.fleet, w.removed = map[rollout.EngineID]*fleetMember{}, map[rollout.EngineID]bool{}
	}
}

// pass lets the world go on as it would by itself.
func (w *world) pass() {
	for _, id := range sorted(w.clouds) { // in order: what it draws of chance follows from the seed
		c := w.clouds[id]
		age := w.now.Sub(c.since)
		if c.state == enginestate.EngineOrdered && age > 2*time.Second {
			c.state = enginestate.EngineRunning
			if w.crashes > 0 && w.one(w.crashes) {
				w.say("%s dies while it starts", id)
				c.state = enginestate.EngineFailed
			}
		}
		if !c.leavesAt.IsZero() && !w.now.Before(c.leavesAt) && c.state != enginestate.EngineFailed {
			w.say("the machine of %s is gone", id)
			c.state = enginestate.EngineFailed
		}
	}
	for _, id := range sorted(w.fleet) {
		m, c := w.fleet[id], w.clouds[id]
		runs := c != nil && c.state == enginestate.EngineRunning
		switch {
		case !runs && m.state != enginestate.EngineLost:
			m.state, m.since, m.inFlight = enginestate.EngineLost, w.now, 0
		case runs && m.drain:
			m.state = enginestate.EngineDraining
		case runs && m.state != enginestate.EngineReady && w.now.Sub(c.since) > 10*time.Second:
			m.state, m.since, m.served = enginestate.EngineReady, w.now, true
		}
		switch {
		case m.state == enginestate.EngineReady:
			m.inFlight = w.r.IntN(4)
		case m.recalled && w.now.Sub(m.drainsAt) > 2*time.Second:
			m.inFlight = 0
		case m.drain && m.inFlight > 0 && w.one(3):
			m.inFlight--
		}
		if m.leave && (m.inFlight == 0 || m.state == enginestate.EngineLost) {
			delete(w.fleet, id)
		}
	}
}

func (w *world) drain(id rollout.EngineID, recall bool) {
	m := w.fleet[id]
	if m == nil {
		return
	}
	if !m.drain {
		m.drainsAt = w.now
	}
	m.drain, m.recalled = true, m.recalled || recall
}

// round is one look, and what follows from it.
func (w *world) round() {
	w.pass()
	seen := w.look()
	commands := w.handle(seen)
	w.result = nil
	for _, c := range commands {
		switch {
		case w.one(8): // given up before it was performed, and performed later, perhaps
			w.late = append(w.late, c)
			w.result = append(w.result, Result{Do: c.Do, ID: c.ID, Fault: "timed out"})
		case w.one(8): // performed, and its answer lost
			w.perform(c)
			w.result = append(w.result, Result{Do: c.Do, ID: c.ID, Fault: "timed out"})
		case w.one(8): // twice
			w.perform(c)
			fallthrough
		default:
			r := Result{Do: c.Do, ID: c.ID}
			if !w.perform(c) {
				r.Fault = "no quota"
			}
			w.result = append(w.result, r)
		}
	}
	if len(w.late) > 0 && w.one(6) {
		at := w.r.IntN(len(w.late))
		w.say("late: %v", w.late[at])
		w.belated = true
		w.perform(w.late[at])
		w.belated = false
		w.late = slices.Delete(w.late, at, at+1)
	}
}

func (w *world) look() Seen {
	seen := Seen{At: w.now, Wanted: w.wanted, Results: w.result}
	var now []provider.Instance
	for id, c := range w.clouds {
		in := provider.Instance{ID: id, State: c.state, Since: c.since, LeavesAt: c.leavesAt}
		if c.state == enginestate.EngineRunning {
			in.URL = "http://" + string(id)
		}
		now = append(now, in)
	}
	slices.SortFunc(now, func(a, b provider.Instance) int { return numberOf(a.ID) - numberOf(b.ID) })
	if !w.lags || w.now.Sub(w.staleAt) > missingFor-2*time.Second { // lists lag, and no longer than it counts on
		w.stale, w.staleAt = now, w.now
	}
	seen.Listed = slices.Clone(w.stale)
	if w.silent {
		seen.Listed, seen.ListFault = nil, "no answer"
	}
	for id, m := range w.fleet {
		seen.Members = append(seen.Members, Member{ID: id, URL: "http://" + string(id), State: m.state, Since: m.since,
			Drain: m.drain, Recalled: m.recalled, Leave: m.leave, Idle: m.inFlight == 0, IdleAt: w.now})
	}
	slices.SortFunc(seen.Members, func(a, b Member) int { return numberOf(a.ID) - numberOf(b.ID) })
	for id := range w.removed {
		seen.Removed = append(seen.Removed, id)
	}
	slices.Sort(seen.Removed)
	return seen
}

// handle lets the pool decide, as an activity does: from a state that was written down. What it decides may be lost
// before it is; then it is decided on again.
func (w *world) handle(seen Seen) []Command {
	text, err := json.Marshal(w.state)
	if err != nil {
		w.t.Fatal(err)
	}
	var read State
	if err := json.Unmarshal(text, &read); err != nil {
		w.t.Fatal(err)
	}
	pool, err := Restore(read)
	if err != nil {
		w.t.Fatal(err)
	}
	commands := pool.Handle(seen)
	again, _ := Restore(read)
	if repeated := again.Handle(seen); !reflect.DeepEqual(repeated, commands) {
		w.fail("the same look brings %v, and then %v", commands, repeated)
	}
	if w.one(10) {
		return nil // the answer is lost
	}
	w.state = pool.State
	for _, c := range commands {
		w.say("%v", c)
	}
	alive := w.state.Count().Alive()
	if alive > seen.Wanted {
		w.fail("%d engines are to be alive, and %d are wanted", alive, seen.Wanted)
	}
	busy := map[rollout.EngineID]bool{}
	for _, c := range commands {
		if busy[c.ID] {
			w.fail("two commands for %s", c.ID)
		}
		busy[c.ID] = true
	}
	return commands
}

// perform does what a command says, and reports whether it was done.
func (w *world) perform(c Command) bool {
	cloud, m := w.clouds[c.ID], w.fleet[c.ID]
	switch c.Do {
	case DoStart:
		if w.refuses {
			return false
		}
		if cloud == nil {
			w.clouds[c.ID] = &cloudEngine{state: enginestate.EngineOrdered, since: w.now}
		}
	case DoJoin:
		if m == nil {
			w.fleet[c.ID] = &fleetMember{state: enginestate.EngineStarting, since: w.now}
		} else {
			m.drain, m.recalled, m.leave, m.drainsAt = false, false, false, time.Time{}
		}
	case DoDrain:
		w.drain(c.ID, c.Recall)
	case DoStop:
		lives := cloud != nil && cloud.state == enginestate.EngineRunning &&
			(cloud.leavesAt.IsZero() || w.now.Before(cloud.leavesAt))
		if lives && m != nil && m.inFlight > 0 && !w.belated {
			w.fail("%s is stopped while it has %d requests: %+v", c.ID, m.inFlight, *m)
		}
		delete(w.clouds, c.ID)
	case DoLeave:
		if m != nil {
			w.drain(c.ID, true)
			m.leave = true
		}
	}
	return true
}

// calm lets nothing more go wrong; what was given up is performed first.
func (w *world) calm() {
	w.refuses, w.silent, w.lags, w.crashes = false, false, false, 0
	w.say("calm, %d wanted", w.wanted)
	for _, c := range w.late {
		w.say("late %v", c)
		w.belated = true
		w.perform(c)
	}
	w.late, w.belated = nil, false
	quiet := 0
	for range 3000 {
		w.now = w.now.Add(2 * time.Second)
		w.pass()
		commands := w.handleCalm()
		w.result = nil
		for _, c := range commands {
			w.say("%v", c)
			w.perform(c)
			w.result = append(w.result, Result{Do: c.Do, ID: c.ID})
		}
		quiet++
		if len(commands) > 0 {
			quiet = 0
		}
		if quiet > 200 {
			break
		}
	}
	serving := 0
	for id, c := range w.clouds {
		m := w.fleet[id]
		if c.state != enginestate.EngineRunning || m == nil || m.state != enginestate.EngineReady {
			w.fail("%s is %s, and in the fleet %+v", id, c.state, m)
		}
		serving++
	}
	if serving != w.wanted || len(w.fleet) != w.wanted || len(w.state.Engines) != w.wanted {
		w.fail("%d engines serve, %d are in the fleet and %d in the pool; %d are wanted", serving, len(w.fleet),
			len(w.state.Engines), w.wanted)
	}
	if w.state.Trouble != "" {
		w.fail("there is still trouble: %s", w.state.Trouble)
	}
}

func (w *world) handleCalm() []Command {
	pool, err := Restore(w.state)
	if err != nil {
		w.t.Fatal(err)
	}
	commands := pool.Handle(w.look())
	w.state = pool.State
	return commands
}
