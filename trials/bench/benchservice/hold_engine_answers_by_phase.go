package benchservice

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
)

// Hold has engines hold the answers to requests of a phase and of later ones, until it is released. Nil holds nothing.
type Hold struct{ now atomic.Pointer[held] }

// held is what is held from one call of Phase to the next.
type held struct {
	from     int           // first phase that is held; 0 is a game's first
	requests atomic.Int64  // that are
	over     chan struct{} // closed by the next call
}

// firstYear is when a game of a site begins.
const firstYear = 1901

// NewHold holds nothing until Phase is called.
func NewHold() *Hold {
	h := &Hold{}
	h.now.Store(&held{from: MaxPhases, over: make(chan struct{})})
	return h
}

// Phase holds the answers of a phase, counted from 0, and of those after it, and lets go of those before.
func (h *Hold) Phase(n int) {
	before := h.now.Swap(&held{from: n, over: make(chan struct{})})
	close(before.over)
}

// Release lets go of all.
func (h *Hold) Release() { h.Phase(MaxPhases) }

// Held is how many requests have come that are held since the latest call of Phase.
func (h *Hold) Held() int { return int(h.now.Load().requests.Load()) }

// pass returns when a request may be answered, and false when nobody waits for its answer any more.
func (h *Hold) pass(ctx context.Context, prompt string) bool {
	if h == nil {
		return true
	}
	phase := phaseOf(prompt)
	for {
		now := h.now.Load()
		if phase < now.from {
			return true
		}
		now.requests.Add(1)
		select {
		case <-now.over:
		case <-ctx.Done():
			now.requests.Add(-1)
			return false
		}
	}
}

// phaseOf is the number of the phase that a prompt asks for: "S1901M, " is 0, "F1901M, " is 1. Each year has two. A
// request that is no game's, such as a canary, is in none: it is never held.
func phaseOf(prompt string) int {
	line, _, found := strings.Cut(prompt, ". Powers, units; centres:")
	line = line[strings.LastIndexByte(line, '\n')+1:]
	if !found || len(line) < len("S1901") {
		return -1
	}
	year, err := strconv.Atoi(line[1:len("S1901")])
	if err != nil {
		return -1
	}
	phase := PhasesPerYear * (year - firstYear)
	if line[0] == 'F' {
		phase++
	}
	return phase
}
