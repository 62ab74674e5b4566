package scaling

import "time"

// window knows the least, or the greatest, of the numbers that were wanted in the newest stretch of time. It keeps only
// those that may still be it, so that it never has more entries than there are numbers of engines.
type window struct {
	Since   time.Time  `json:"since,omitzero"` // the first number
	Entries []wantedAt `json:"entries,omitempty"`
}

// wantedAt is a number that was wanted at a time.
type wantedAt struct {
	At      time.Time `json:"at"`
	Engines int       `json:"engines"`
}

// least takes a number and returns the least of those that are no older than length; false: there is less to look at.
func (w *window) least(at time.Time, n int, length time.Duration) (int, bool) {
	return w.add(at, n, length, func(old int) bool { return old >= n })
}

// greatest does the same for the greatest.
func (w *window) greatest(at time.Time, n int, length time.Duration) (int, bool) {
	return w.add(at, n, length, func(old int) bool { return old <= n })
}

// add takes a number. Those before it that it beats can never be the answer again.
func (w *window) add(at time.Time, n int, length time.Duration, beats func(int) bool) (int, bool) {
	if w.Since.IsZero() {
		w.Since = at
	}
	last := len(w.Entries)
	for last > 0 && beats(w.Entries[last-1].Engines) {
		last--
	}
	w.Entries = append(w.Entries[:last], wantedAt{at, n})
	first := 0
	for w.Entries[first].At.Before(at.Add(-length)) {
		first++
	}
	w.Entries = w.Entries[first:]
	return w.Entries[0].Engines, at.Sub(w.Since) >= length
}
