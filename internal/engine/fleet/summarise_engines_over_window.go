package fleet

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// engineWindow makes views of the engines over a window from the rows of stretches.
type engineWindow struct {
	from, to time.Time
	engines  map[rollout.EngineID][]Work // in order of time
}

func newEngineWindow(from, to time.Time) engineWindow {
	return engineWindow{from: from, to: to, engines: map[rollout.EngineID][]Work{}}
}

// add adds the rows of a stretch that ended at a time, as far as they lie in the window.
func (w *engineWindow) add(end time.Time, rows []engineStretch) {
	for _, row := range rows {
		if row.Sec <= 0 {
			continue
		}
		begin := end.Add(-time.Duration(row.Sec * float64(time.Second)))
		inside := units.Earlier(end, w.to).Sub(units.Later(begin, w.from)).Seconds()
		if inside <= 0 {
			continue
		}
		w.engines[row.Engine] = append(w.engines[row.Engine], row.part(min(1, inside/row.Sec)))
	}
}

// views is the engines of the window, each with its loads.
func (w *engineWindow) views() []enginestate.EngineView {
	ids := w.chosen(enginestate.MaxEngineViews)
	views := make([]enginestate.EngineView, 0, len(ids))
	for _, id := range ids {
		views = append(views, viewOf(id, w.engines[id], enginestate.EngineLoadBins(len(ids))))
	}
	return views
}

// chosen is at most so many engines. Of more, half are those that took longest for what they did in the whole window;
// the others are the same in every window, so that a fleet's usual speed is seen beside its slowest engines'.
func (w *engineWindow) chosen(most int) []rollout.EngineID {
	ids := slices.Sorted(maps.Keys(w.engines))
	if len(ids) <= most {
		return ids
	}
	perToken, place := map[rollout.EngineID]float64{}, map[rollout.EngineID]uint64{}
	for _, id := range ids {
		var inFlight, output float64
		for _, s := range w.engines[id] {
			inFlight, output = inFlight+s.Running+s.Waiting, output+s.Output
		}
		perToken[id] = units.Share(inFlight, output)
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(id)) // never fails
		place[id] = hash.Sum64()
	}
	slices.SortStableFunc(ids, func(a, b rollout.EngineID) int { return cmp.Compare(perToken[b], perToken[a]) })
	slowest, others := ids[:most/2], ids[most/2:]
	slices.SortStableFunc(others, func(a, b rollout.EngineID) int { return cmp.Compare(place[a], place[b]) })
	out := slices.Concat(slowest, others[:most-len(slowest)])
	slices.Sort(out)
	return out
}

func viewOf(id rollout.EngineID, stretches []Work, bins int) enginestate.EngineView {
	var sum Work
	for _, s := range stretches {
		sum = sum.Plus(s)
	}
	per := func(v float64) float64 { return digits(units.Share(v, sum.Sec)) }
	return enginestate.EngineView{
		Engine: id, WindowSec: digits(sum.Sec), Running: per(sum.Running), Waiting: per(sum.Waiting),
		InFlight: per(sum.Running + sum.Waiting), Limit: per(sum.Limit), InputTPS: per(sum.Input),
		OutputTPS: per(sum.Output), RequestSec: digits(units.Share(sum.RequestSec, sum.Requests)),
		Requests: digits(sum.Requests), PrefixHitShare: digits(units.Share(sum.Cached, sum.Input)),
		Preemptions: digits(sum.Preemptions), KVUsage: per(sum.KV), Loads: loadBins(stretches, bins),
	}
}

// loadBins is the loads of a window, stretch after stretch.
func loadBins(stretches []Work, most int) []enginestate.LoadBin {
	bins := make([]enginestate.LoadBin, 0, len(stretches))
	for _, s := range stretches {
		bins = append(bins, enginestate.LoadBin{
			InFlight: units.Share(s.Running+s.Waiting, s.Sec), Sec: s.Sec, InputTokens: s.Input - s.Cached,
			OutputTokens: s.Output, Requests: s.Requests,
		})
	}
	bins = enginestate.FewerLoads(bins, most)
	for i := range bins {
		b := &bins[i]
		for _, v := range []*float64{&b.InFlight, &b.Sec, &b.InputTokens, &b.OutputTokens, &b.Requests} {
			*v = digits(*v)
		}
	}
	return bins
}
