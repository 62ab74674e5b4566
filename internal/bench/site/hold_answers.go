package site

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Hold has engines hold the answers to requests of a phase and of later ones, until it is released. Nil holds nothing.
type Hold struct {
	held atomic.Int64

	mu   sync.Mutex    // guards what follows
	from int           // first phase that is held; 0 is a game's first
	open chan struct{} // closed when from is another
}

// firstYear is when a game of a site begins.
const firstYear = 1901

// NewHold holds nothing until Phase is called.
func NewHold() *Hold { return &Hold{from: MaxPhases, open: make(chan struct{})} }

// Phase holds the answers of a phase, counted from 0, and of those after it, and lets go of those before.
func (h *Hold) Phase(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.open)
	h.from, h.open = n, make(chan struct{})
}

// Release lets go of all.
func (h *Hold) Release() { h.Phase(MaxPhases) }

// Held is how many requests are held now.
func (h *Hold) Held() int { return int(h.held.Load()) }

// pass returns when a request may be answered, and false when nobody waits for its answer any more.
func (h *Hold) pass(ctx context.Context, prompt string) bool {
	if h == nil {
		return true
	}
	phase := phaseOf(prompt)
	for {
		h.mu.Lock()
		from, open := h.from, h.open
		h.mu.Unlock()
		if phase < from {
			return true
		}
		h.held.Add(1)
		select {
		case <-open:
			h.held.Add(-1)
		case <-ctx.Done():
			h.held.Add(-1)
			return false
		}
	}
}

// phaseOf is the number of the phase that a prompt asks for: "S1901M, " is 0, "F1901M, " is 1. Each year has two.
func phaseOf(prompt string) int {
	line, _, _ := strings.Cut(prompt, ". Powers, units; centres:")
	line = line[strings.LastIndexByte(line, '\n')+1:]
	year := firstYear
	if len(line) > len("S1901") {
		if n, err := strconv.Atoi(line[1:len("S1901")]); err == nil {
			year = n
		}
	}
	phase := PhasesPerYear * (year - firstYear)
	if strings.HasPrefix(line, "F") {
		phase++
	}
	return phase
}
