package dispatch

import "time"

// An engine that holds this share of its memory for requests gets no more of them at a time; above the second, fewer.
const (
	softMemory = 0.8
	hardMemory = 0.9
)

// sampleState is an engine's last load report.
type sampleState struct {
	at      time.Time // by the sampler's clock: only a change is news
	heardAt time.Time // by ours
	memory  float64
	tight   int // samples in a row in which the engine had too much
}

// full reports whether the engine has just said that its memory is nearly used up. An old sample tells nothing.
func (st *sampleState) full(now time.Time, cfg *Config) bool {
	return st.memory >= softMemory && now.Sub(st.heardAt) <= cfg.LoadStaleAfter
}

// sampled handles a sample. One alone may show a passing burst, or predate the last cut. The second in a row that shows
// an engine with more than it can work on cuts the window, by a fifth at most and never below what the engine does work
// on. A repeated sample is no news, so a failed scrape changes nothing.
func (e *engine) sampled(now time.Time, load *Load) {
	st := &e.sample
	if load.At.IsZero() || load.At.Equal(st.at) {
		return
	}
	st.at, st.heardAt, st.memory = load.At, now, load.KVUsage
	waits := load.Waiting > max(1, load.Running/4)
	if !waits && load.KVUsage < hardMemory && load.Preemptions == 0 {
		st.tight = 0
		return
	}
	if st.tight++; st.tight < 2 {
		return
	}
	st.tight = 0
	inUse := len(e.inFlight)
	if inUse == 0 || inUse > e.window {
		return // idle, or the last cut is not yet felt
	}
	floor := 0
	if waits {
		floor = int(float64(inUse) * load.Running / (load.Running + load.Waiting))
	}
	e.cut(max(inUse*4/5, floor))
}
