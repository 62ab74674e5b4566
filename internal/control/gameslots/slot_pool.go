// Package gameslots decides how many slots for games a worker has, and which run they are given to: all of them to a
// run that is alone, fair shares to several. It is a pure value; the worker drives it. Start reading at Pool.
package gameslots

import (
	"cmp"

	"github.com/millrace/millrace/internal/rollout"
)

// MaxPolls is how many slots a run may hold to ask for games with, beside those that are played.
const MaxPolls = 4

// Pool is a worker's slots. A slot is held from when its run begins to ask for a game until the game is over; only
// those with a game count against the others. What holds at any time:
//
//   - A run that is alone gets Size slots, and no more.
//   - While fewer than Size games are played, any run gets another slot, the one that holds least first.
//   - When all slots are taken, a run with less than its share, Size by the number of runs that play, still gets more,
//     but never more than half of what is left of as many slots again: games mostly wait, so that twice as many are
//     affordable for the minutes until the others' are over. The others get none meanwhile.
//   - Every run may hold at least one.
//   - A run that goes behind gets none of these slots: its games are played beside them, together a quarter as many as
//     are idle, and at least one.
//
// So at most 2 x Size games are played, and up to MaxPolls more for each run. The zero value has no slots.
type Pool struct {
	size       int
	runs       map[rollout.RunName]*holding
	used       int // of runs that do not go behind
	usedBehind int
}

// holding is one run's use of the pool.
type holding struct {
	used, polls, waiting int
	behind               bool
}

func (h *holding) held() int { return h.used + h.polls }

// New makes a pool of so many slots, at least one.
func New(size int) *Pool { return &Pool{size: max(size, 1), runs: map[rollout.RunName]*holding{}} }

// Wait says that a run wants another slot. It gets it when Next names the run.
func (p *Pool) Wait(run rollout.RunName) { p.of(run).waiting++ }

// Behind says of a run that goes behind that it wants another slot.
func (p *Pool) Behind(run rollout.RunName) {
	p.of(run).behind = true
	p.Wait(run)
}

// Abandon takes back a Wait that Next has not answered.
func (p *Pool) Abandon(run rollout.RunName) { p.of(run).waiting--; p.tidy(run) }

// Next gives a slot to a run that waits, if any may have one.
func (p *Pool) Next() (rollout.RunName, bool) {
	var best rollout.RunName
	var least *holding
	for run, h := range p.runs {
		if h.waiting == 0 || !p.may(h) {
			continue
		}
		if least == nil || cmp.Or(cmp.Compare(h.held(), least.held()), cmp.Compare(run, best)) < 0 {
			best, least = run, h
		}
	}
	if least == nil {
		return "", false
	}
	least.waiting--
	least.polls++
	return best, true
}

// may reports whether a run may have one more slot.
func (p *Pool) may(h *holding) bool {
	switch {
	case h.polls >= MaxPolls:
		return false
	case h.behind:
		return p.usedBehind+h.polls < max(1, (p.size-p.used)/4)
	case h.held() == 0 || p.used+h.polls < p.size:
		return true
	}
	return h.held() < p.share(h) && h.held() < 2*p.size-p.used
}

// share is a run's fair share among those that play, itself included.
func (p *Pool) share(of *holding) int {
	n := 1
	for _, h := range p.runs {
		if h != of && h.used > 0 && !h.behind {
			n++
		}
	}
	return (p.size + n - 1) / n
}

// Play says that a game came for a slot of the run's.
func (p *Pool) Play(run rollout.RunName) {
	h := p.of(run)
	h.polls--
	h.used++
	*p.usedBy(h)++
}

func (p *Pool) usedBy(h *holding) *int {
	if h.behind {
		return &p.usedBehind
	}
	return &p.used
}

// Release takes a slot back: one whose game is over, or one for which none came.
func (p *Pool) Release(run rollout.RunName, played bool) {
	h := p.of(run)
	if played {
		h.used--
		*p.usedBy(h)--
	} else {
		h.polls--
	}
	p.tidy(run)
}

func (p *Pool) of(run rollout.RunName) *holding {
	h, ok := p.runs[run]
	if !ok {
		h = &holding{}
		p.runs[run] = h
	}
	return h
}

func (p *Pool) tidy(run rollout.RunName) {
	if h := p.runs[run]; h.used+h.polls+h.waiting == 0 {
		delete(p.runs, run)
	}
}
