package serving

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// engineWindow is what an engine did since views were last taken, as a keeper sees it that looks now and then.
type engineWindow struct {
	at   time.Duration // of the last look
	seen enginemodel.Stats
	sum  enginestate.EngineView // sums over its seconds, where a view has means
	bins []enginestate.LoadBin
	open enginestate.LoadBin // shorter than a stretch
	hits float64             // prompt tokens found in caches
	all  float64             // and all of them
}

// look takes in the time since the last look. Requests in flight are known at both, and taken for what is between them.
func (w *engineWindow) look(now time.Duration, st enginemodel.Stats, limit int) {
	sec := (now - w.at).Seconds()
	if sec <= 0 {
		return
	}
	was := w.seen
	running, waiting := float64(was.Running+st.Running)/2, float64(was.Waiting+st.Waiting)/2
	input, cached := float64(st.Prompt-was.Prompt), float64(st.Cached-was.Cached)
	w.at, w.seen = now, st
	w.sum.WindowSec += sec
	w.sum.Running += sec * running
	w.sum.Waiting += sec * waiting
	w.sum.Limit += sec * float64(limit)
	w.sum.InputTPS += input
	w.sum.OutputTPS += float64(st.Output - was.Output)
	if st.KVRoom > 0 {
		w.sum.KVUsage += sec * float64(st.KV) / float64(st.KVRoom)
	}
	w.hits += cached
	w.all += input
	w.open = w.open.Add(enginestate.LoadBin{InFlight: running + waiting, Sec: sec, InputTokens: input - cached,
		OutputTokens: float64(st.Output - was.Output)})
	if w.open.Sec >= enginestate.LoadStretch {
		w.bins, w.open = append(w.bins, w.open), enginestate.LoadBin{}
	}
}

// take is the view of the window, which begins anew.
func (w *engineWindow) take(id rollout.EngineID, bins int) enginestate.EngineView {
	v := w.sum
	v.Engine = id
	for _, mean := range []*float64{&v.Running, &v.Waiting, &v.Limit, &v.InputTPS, &v.OutputTPS, &v.KVUsage} {
		*mean /= v.WindowSec
	}
	v.InFlight = v.Running + v.Waiting
	if w.all > 0 {
		v.PrefixHitShare = w.hits / w.all
	}
	if w.open.Sec > 0 {
		w.bins = append(w.bins, w.open)
	}
	v.Loads = enginestate.FewerLoads(w.bins, bins)
	*w = engineWindow{at: w.at, seen: w.seen}
	return v
}

// EngineViews is what each engine did since this was last asked, for those that take requests.
func (f *Fleet) EngineViews() []enginestate.EngineView {
	now := f.agenda.Now()
	var views []enginestate.EngineView
	for _, e := range f.order {
		f.collect(now, e)
		e.window.look(now, e.model.Stats(), e.up.Limit)
		if e.window.sum.WindowSec > 0 && len(views) < enginestate.MaxEngineViews {
			views = append(views, e.window.take(e.id, enginestate.EngineLoadBins(len(f.order))))
		}
	}
	return views
}
