package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// condition is what the scheduler makes of how an engine's requests end.
type condition uint8

const (
	healthy  condition = iota
	suspect            // no dispatch; a probe is due at probeAt
	probing            // no dispatch; a probe is under way
	halfOpen           // the probe succeeded; one request may try
)

var conditionNames = [...]string{healthy: "healthy", suspect: "suspect", probing: "probing", halfOpen: "half_open"}

// engine is what the scheduler keeps of one engine.
type engine struct {
	id       rollout.EngineID
	limit    int             // as told
	models   map[string]bool // adapters included
	adapters map[string]bool
	slots    int // adapters that fit into a batch; 0: not known
	draining bool

	inFlight map[ID]*entry
	perRun   map[*run]int // in flight
	batches  int          // in flight
	load     int64        // expected work in flight, in weighted tokens

	// window is how many of limit are used: cut by overload answers, widened by good ones.
	window      int
	credit      int // good answers since the window last changed; negative after a cut
	cutAt       time.Time
	pausedUntil time.Time
	pause       time.Duration // the next pause after an overload

	condition  condition
	failures   int    // in a row
	trial      *entry // the one request of a half-open engine, while in flight
	probeAt    time.Time
	probeAfter time.Duration

	missing map[string]*missingModel

	sample sampleState
}

// missingModel is a model that the engine denied having although it is listed.
type missingModel struct {
	until time.Time
	pause time.Duration
}

func newEngine(id rollout.EngineID) *engine {
	return &engine{id: id, inFlight: map[ID]*entry{}, perRun: map[*run]int{}, missing: map[string]*missingModel{}}
}

// open tells whether the engine is dispatched to at all.
func (e *engine) open() bool {
	return !e.draining && (e.condition == healthy || e.condition == halfOpen)
}

// serves tells whether requests for a model may go to the engine.
func (e *engine) serves(model string, now time.Time) bool {
	if !e.open() || !e.models[model] {
		return false
	}
	m := e.missing[model]
	return m == nil || !now.Before(m.until)
}

// room tells whether the engine takes one more request of r now.
func (e *engine) room(r *run, now time.Time) bool {
	switch {
	case len(e.inFlight) >= e.window, now.Before(e.pausedUntil), e.condition == halfOpen && e.trial != nil:
		return false
	}
	if r.batcher != nil && e.batches >= r.batcher.perEngine() {
		return false
	}
	most := r.rules.MaxInFlightPerEngine
	return most <= 0 || e.perRun[r] < most
}

// roomFor is how many requests of r an engine with room takes now.
func (e *engine) roomFor(r *run) int {
	if e.condition == halfOpen {
		return 1
	}
	n := e.window - len(e.inFlight)
	if most := r.rules.MaxInFlightPerEngine; most > 0 {
		n = min(n, most-e.perRun[r])
	}
	return n
}

// resize takes a new limit. A window that overload has cut stays cut.
func (e *engine) resize(limit int) {
	limit = max(0, limit)
	if e.window >= e.limit {
		e.window = limit
	}
	e.limit = limit
	e.window = min(e.window, e.limit)
	if e.limit > 0 {
		e.window = max(1, e.window)
	}
}

// holdRounds is for how many windows' worth of good answers a cut window stays as it is: probing for more room at once
// would turn away a request in every round.
const holdRounds = 8

// served widens the window by an eighth for each window's worth of good answers, and ends the doubt about a half-open
// engine.
func (e *engine) served(now time.Time, cfg *Config) {
	e.failures = 0
	if e.condition == halfOpen {
		e.condition, e.trial, e.probeAfter = healthy, nil, 0
	}
	if e.window >= e.limit {
		e.pause = 0
		return
	}
	if e.sample.full(now, cfg) {
		return
	}
	if e.credit++; e.credit >= e.window {
		e.credit, e.pause = 0, 0
		e.window = min(e.limit, e.window+max(1, e.window/8))
	}
}

// overloaded cuts the window and pauses dispatch. Requests sent before the last cut tell nothing new.
func (e *engine) overloaded(now, sentAt time.Time, retryAfter time.Duration, cfg *Config) {
	if !sentAt.After(e.cutAt) {
		return
	}
	inUse := len(e.inFlight) + 1 // the one that was turned away has left already
	e.cut(now, min(e.window, inUse)*3/4)
	e.rest(now, retryAfter, cfg)
}

// cut makes the window smaller, and keeps it so for a while.
func (e *engine) cut(now time.Time, window int) {
	e.window = min(e.limit, max(1, window))
	e.credit = -holdRounds * e.window
	e.cutAt = now
}

// rest pauses dispatch for as long as the engine says, or for longer each time.
func (e *engine) rest(now time.Time, asked time.Duration, cfg *Config) {
	e.pause = grow(e.pause, cfg.OverloadPause, cfg.MaxOverloadPause)
	pause := e.pause
	if asked > 0 {
		pause = min(asked, cfg.MaxOverloadPause)
	}
	e.pausedUntil = now.Add(pause)
}

// failed counts a failure and tells whether it made the engine suspect. While in doubt, only the trial tells anything new.
func (e *engine) failed(now time.Time, trial, atOnce bool, cfg *Config) bool {
	e.failures++
	switch {
	case e.condition == healthy && (atOnce || e.failures >= cfg.SuspectAfter), trial:
		e.doubt(now, cfg)
		return true
	}
	return false
}

// doubt stops dispatch until a probe, later each time.
func (e *engine) doubt(now time.Time, cfg *Config) {
	e.condition, e.trial = suspect, nil
	e.failures = 0
	e.probeAfter = grow(e.probeAfter, cfg.ProbeAfter, cfg.MaxProbeAfter)
	e.probeAt = now.Add(e.probeAfter)
}

// denies keeps requests for a model away for a while, longer each time.
func (e *engine) denies(model string, now time.Time, cfg *Config) {
	m := e.missing[model]
	if m == nil {
		m = &missingModel{}
		e.missing[model] = m
	}
	if now.Before(m.until) {
		return
	}
	m.pause = grow(m.pause, cfg.MissingPause, cfg.MaxMissingPause)
	m.until = now.Add(m.pause)
}

// grow doubles a pause from first up to most.
func grow(pause, first, most time.Duration) time.Duration {
	if pause == 0 {
		return first
	}
	return min(2*pause, most)
}

// update takes what is said of the engine and tells whether it changed which models it serves.
func (e *engine) update(up *EngineUp) bool {
	changed := e.draining || len(e.models) != len(up.Models)+len(up.Adapters)
	e.draining = false
	for _, m := range up.Models {
		changed = changed || !e.models[m]
	}
	for _, m := range up.Adapters {
		changed = changed || !e.adapters[m]
	}
	if changed {
		e.models, e.adapters = map[string]bool{}, map[string]bool{}
		for _, m := range up.Models {
			e.models[m] = true
		}
		for _, m := range up.Adapters {
			e.models[m], e.adapters[m] = true, true
		}
		maps.DeleteFunc(e.missing, func(m string, _ *missingModel) bool { return !e.models[m] })
	}
	if e.slots != up.Slots {
		e.slots, changed = up.Slots, true
	}
	e.resize(up.Limit)
	return changed
}

// oldest is what is in flight, in order of arrival.
func (e *engine) oldest() []*entry {
	return slices.SortedFunc(maps.Values(e.inFlight), func(a, b *entry) int {
		if a.arrival < b.arrival {
			return -1
		}
		return 1
	})
}
