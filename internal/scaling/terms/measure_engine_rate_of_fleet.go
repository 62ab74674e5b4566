package terms

import "math"

// Counters are sums over engines and time since some beginning; only differences are used. Tokens must be counted as
// they are generated, as engines do, and not when a request ends.
type Counters struct {
	Sec         float64 // wall time
	EngineSec   float64 // engines that take requests
	BusySec     float64 // of these: with at least one request
	InFlightSec float64 // requests in flight
	LimitSec    float64 // the engines' slots
	QueuedSec   float64 // requests that wait for a slot
	Input       int64   // prompt tokens
	Cached      int64   // of these: found in prefix caches
	Output      int64   // generated tokens
}

// Window is the fleet's work between two readings of its counters.
type Window struct {
	Sec, Engines, SlotShare, BusyShare, Queued float64
	Rate                                       float64 // work of an engine per second
}

const (
	// fullSlots is the share of slots in use from which on they count as full.
	fullSlots = 0.9
	// rateMemory is for how many seconds of full slots a rate is remembered.
	rateMemory = 180
	// readShare is the cost of a token read relative to one generated, with many requests at once: about a sixteenth
	// (hardware profiles). It matters only if the mixture changes while no slots are full.
	readShare = 1.0 / 16
)

// work is a number of tokens in those that are generated.
func work(input, cached, output int64) float64 {
	return float64(output) + readShare*float64(max(0, input-cached))
}

// Fleet measures how much one engine does. Its zero value has seen nothing.
type Fleet struct {
	Last Counters `json:"last"`
	// Full is the rate of an engine with full slots, 0 if there was none, and Highest the highest of any window.
	Full    float64 `json:"full,omitempty"`
	Highest float64 `json:"highest,omitempty"`
	Newest  Window  `json:"newest"`
}

// Read takes a reading of the counters.
func (f *Fleet) Read(c Counters) Window {
	was := f.Last
	f.Last = c
	w := Window{Sec: c.Sec - was.Sec}
	engineSec := c.EngineSec - was.EngineSec
	if w.Sec <= 0 || engineSec < 0 || c.Output < was.Output {
		f.Newest = Window{} // they began anew
		return f.Newest
	}
	w.Engines = engineSec / w.Sec
	w.Queued = (c.QueuedSec - was.QueuedSec) / w.Sec
	if engineSec > 0 {
		w.BusyShare = min(1, (c.BusySec-was.BusySec)/engineSec)
		w.Rate = work(c.Input-was.Input, c.Cached-was.Cached, c.Output-was.Output) / engineSec
	}
	if limit := c.LimitSec - was.LimitSec; limit > 0 {
		w.SlotShare = min(1, (c.InFlightSec-was.InFlightSec)/limit)
	}
	f.learn(w)
	f.Newest = w
	return w
}

// learn adds a window's rate. One window alone proves little: reading and generating do not come evenly.
func (f *Fleet) learn(w Window) {
	if w.Rate <= 0 {
		return
	}
	f.Highest = max(f.Highest, w.Rate)
	if w.SlotShare < fullSlots {
		return
	}
	rate := w.Rate / w.SlotShare // what is missing to full slots works as the others do
	if f.Full <= 0 {
		f.Full = rate
		return
	}
	f.Full += (rate - f.Full) * (1 - math.Exp(-w.Sec/rateMemory))
}

// Rate is how much an engine with full slots does in a second; 0: not known.
func (f *Fleet) Rate() float64 {
	if f.Full > 0 {
		return f.Full
	}
	return f.Highest
}
