package crashtest

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Recovery is how long the deaths of one kind of process were felt.
type Recovery struct {
	Kind    Kind
	What    string // what had to happen again
	Seconds []float64
	Open    int // deaths after which it was not seen to happen
}

// kill reports whether something died of it, and not only was unavailable.
func (r Recovery) kill() bool { return strings.HasPrefix(string(r.Kind), "kill-") }

// P is a quantile of the recoveries.
func (r Recovery) P(q float64) float64 { return quantile(r.Seconds, q) }

// quantile is the nearest-rank quantile; 0 of nothing.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// recoveries measures every kill.
func recoveries(done []injected, w *watch, r *recorder) []Recovery {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []Recovery{
		{Kind: KillWorker, What: "next turn of each of its games"},
		{Kind: KillServer, What: "next claim answered"},
		{Kind: KillRedis, What: "next claim answered"},
		{Kind: KillAll, What: "next claim answered"},
		{Kind: KillTrainer, What: "its successor attached"},
		{Kind: KillEngine, What: "its next answer"},
		{Kind: KillTemporal, What: "the run answers through it"},
		{Kind: TemporalOutage, What: "first new group after it is back"},
		{Kind: ReplaceTrainer, What: "the old one refused, once it wakes up"},
	}
	for i := range all {
		rv := &all[i]
		for _, d := range done {
			if d.Kind != rv.Kind || d.overtaken(done) {
				continue
			}
			for _, end := range ends(d, w, r) {
				if end.IsZero() {
					rv.Open++
					continue
				}
				rv.Seconds = append(rv.Seconds, end.Sub(d.began()).Seconds())
			}
		}
	}
	return all
}

// began is when the service could begin to recover: at once, or when the fault was taken back.
func (d injected) began() time.Time {
	if d.until.IsZero() {
		return d.when
	}
	return d.until
}

// overtaken reports whether Temporal was hardly back when it was unavailable again: there was no time to recover in.
func (d injected) overtaken(done []injected) bool {
	return d.Kind == TemporalOutage && slices.ContainsFunc(done, func(next injected) bool {
		return next.Kind == TemporalOutage && next.when.After(d.until) && next.when.Sub(d.until) < slackAfterOutage
	})
}

// slackAfterOutage is more than work took to resume in any run so far.
const slackAfterOutage = 30 * time.Second

// ends is when a kill was over: once for most kinds, once per game for workers. Zero: never seen.
func ends(d injected, w *watch, r *recorder) []time.Time {
	switch d.Kind {
	case KillWorker:
		return r.games(d.when)
	case KillServer, KillRedis, KillAll:
		if !d.claimable {
			return nil // a run that had just begun
		}
		return []time.Time{firstAskedAfter(w.served, d.when)}
	case KillEngine:
		return []time.Time{firstAfter(r.engines[d.Index], d.when)}
	case KillTrainer:
		for _, e := range w.generations {
			if e.at.After(d.when) && (e.run != d.run || int64(e.generation) > d.generation) {
				return []time.Time{e.at}
			}
		}
	case KillTemporal:
		return []time.Time{firstAskedAfter(w.replies, d.when)}
	case TemporalOutage:
		return []time.Time{firstAfter(w.launched, d.until)}
	case ReplaceTrainer:
		return []time.Time{d.refused}
	}
	return []time.Time{{}}
}

// abortsWithin is how soon after a worker's death its requests are seen to be given up.
const abortsWithin = time.Second

// games is when each game that a worker had a request of in flight at its death was answered next.
func (r *recorder) games(death time.Time) []time.Time {
	var ends []time.Time
	seen := map[string]bool{}
	for _, a := range r.aborts {
		if a.begun.After(death) || a.at.Before(death) || a.at.Sub(death) > abortsWithin || seen[a.episode] {
			continue
		}
		seen[a.episode] = true
		ends = append(ends, firstAfter(r.answers[a.episode], death))
	}
	return ends
}

// unled is how many turns engines answered while Temporal was unavailable: games go on until they want to tell it
// something.
func unled(done []injected, r *recorder) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, d := range done {
		if d.Kind != TemporalOutage {
			continue
		}
		for _, times := range r.engines {
			for _, at := range times {
				if at.After(d.when) && at.Before(d.until) {
					n++
				}
			}
		}
	}
	return n
}

func firstAfter(times []time.Time, t time.Time) time.Time {
	for _, at := range times {
		if at.After(t) {
			return at
		}
	}
	return time.Time{}
}

func firstAskedAfter(exchanges []exchange, t time.Time) time.Time {
	for _, e := range exchanges {
		if e.asked.After(t) {
			return e.done
		}
	}
	return time.Time{}
}
