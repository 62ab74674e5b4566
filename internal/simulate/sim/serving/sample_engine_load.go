package serving

import (
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
)

// nextSample is when engines are asked for their load next: at multiples of the interval, whenever the first request
// came.
func (f *Fleet) nextSample() time.Duration {
	every := f.cfg.SampleEvery
	return (f.agenda.Now()/every + 1) * every
}

type sampleHandler Fleet

// Happen tells the scheduler what load the engines have.
func (h *sampleHandler) Happen(now time.Duration, _ uint64) {
	f := (*Fleet)(h)
	at := f.start.Add(now)
	for _, e := range f.order {
		f.collect(now, e)
		st := e.model.Stats()
		e.window.look(now, st, e.up.Limit)
		tokens := st.Prompt + st.Output
		// An engine shows life by its token counters, or by the canary that it is sent while it has nothing to do.
		if tokens != e.tokens || st.Running+st.Waiting == 0 {
			e.tokens, e.lifeAt = tokens, at
		}
		load := dispatch.Load{At: at, Running: float64(st.Running), Waiting: float64(st.Waiting), LifeAt: e.lifeAt}
		if st.KVRoom > 0 {
			load.KVUsage = float64(st.KV) / float64(st.KVRoom)
		}
		f.handle(dispatch.EngineSampled{ID: e.id, Load: load})
	}
	if len(f.requests) > 0 {
		f.sample.Set(f.nextSample())
	}
}
