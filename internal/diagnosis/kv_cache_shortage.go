package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// An engine runs only requests whose tokens fit into its KV cache. Further ones wait inside it, or in the dispatcher's
// line, because the dispatcher spares an engine whose cache is nearly full. Or they are admitted, and preempted when
// the cache overflows, and their work is computed again.

const (
	// kvFull is the share of its KV cache from which on an engine has no room for more: the dispatcher's own bound.
	kvFull = 0.8
	// kvHeldBack is the least share of an engine's requests held back by its memory that matters.
	kvHeldBack = 0.05
	// kvPreempted is how many preemptions for each request answered are more than an accident.
	kvPreempted = 0.02
	// kvTold is the least share of a cache in use from which its capacity in tokens can be estimated.
	kvTold = 0.02
)

// kvUse is how engines' KV caches were used over some steps, weighed by the time that each tells of.
type kvUse struct {
	sec       float64
	shortSec  float64 // of it, with too little room
	share     float64 // of a cache in use
	running   float64 // requests that an engine works on
	waiting   float64 // requests inside it that it does not
	limit     float64 // requests that it may be given
	preempted float64 // for each request answered
	tokens    float64 // that a cache has room for; 0: not known
	toldSec   float64 // part of sec with such an estimate
}

// add takes in one engine's window. Queued says whether requests stand in line for engines.
func (k *kvUse) add(e *enginestate.EngineView, queued bool, requestTokens float64) {
	if e.WindowSec <= 0 || e.KVUsage <= 0 {
		return
	}
	k.sec += e.WindowSec
	k.share += e.WindowSec * e.KVUsage
	k.running += e.WindowSec * e.Running
	k.waiting += e.WindowSec * e.Waiting
	k.limit += e.WindowSec * e.Limit
	k.preempted += e.WindowSec * e.Preemptions / max(1, e.Requests)
	if e.KVUsage >= kvTold && requestTokens > 0 {
		k.tokens += e.WindowSec * e.Running * requestTokens / e.KVUsage
		k.toldSec += e.WindowSec
	}
	if shortOfKV(e, queued) {
		k.shortSec += e.WindowSec
	}
}

// shortOfKV reports whether an engine had no room in its cache for one more request of the usual size, and kept
// requests waiting though it has slots; or preempted some.
func shortOfKV(e *enginestate.EngineView, queued bool) bool {
	if e.Preemptions > kvPreempted*max(1, e.Requests) && e.Preemptions >= 1 {
		return true
	}
	oneMore := e.KVUsage * (1 + 1/max(1, e.Running))
	free := e.Limit == 0 || e.Running < (1-moved)*e.Limit
	return oneMore >= kvFull && free && (e.Waiting >= kvHeldBack*e.InFlight && e.Waiting > 0 || queued)
}

// mean makes means of the sums.
func (k kvUse) mean() kvUse {
	if k.sec <= 0 {
		return kvUse{}
	}
	for _, sum := range []*float64{&k.share, &k.running, &k.waiting, &k.limit, &k.preempted} {
		*sum /= k.sec
	}
	if k.toldSec > 0 {
		k.tokens /= k.toldSec
	}
	return k
}

// short reports whether engines had too little room for most of the time.
func (k kvUse) short() bool { return k.sec > 0 && k.shortSec >= mostOf*k.sec }

// addStep takes in the engines' caches before one step's batch was claimed.
func (k *kvUse) addStep(s *step) {
	v := s.view()
	queued := v.Fleet.QueuedRequests >= kvHeldBack*v.Fleet.InFlight*v.Fleet.Engines && v.Fleet.QueuedRequests > 0
	for i := range v.Engines {
		e := &v.Engines[i]
		k.add(e, queued, heldTokens(e, v.Groups))
	}
}

// heldTokens is the mean number of tokens in a running request: its prompt, and half of its completion.
func heldTokens(e *enginestate.EngineView, groups []steprecord.GroupView) float64 {
	if e.Requests > 0 {
		return (e.InputTPS + e.OutputTPS/2) * e.WindowSec / e.Requests
	}
	var use rollout.Usage
	for i := range groups {
		use = use.Add(groups[i].Usage)
	}
	if use.Requests == 0 {
		return 0
	}
	return (float64(use.InputTokens) + float64(use.OutputTokens)/2) / float64(use.Requests)
}

// kvOver is the engines' caches over some steps.
func (m *measurements) kvOver(at []int) kvUse {
	var k kvUse
	for _, i := range at {
		k.addStep(&m.steps[i])
	}
	return k.mean()
}

// ofMemory is the room in the engines' KV caches, and how many requests crowd them for each one that they work on.
func (c *conditions) ofMemory(s *step) {
	var sum kvUse
	sum.addStep(s)
	k := sum.mean()
	if k.tokens > 0 {
		c[condMemory] = k.tokens
	}
	if k.running > 0 {
		c[condCrowding] = (k.running + k.waiting) / k.running
	}
}

// memoryShortage is how much longer requests take because KV caches have less room: as far as more of them wait inside
// the engines. If fewer prompt tokens are shared, each request takes more of a cache of unchanged size.
func (c *comparison) memoryShortage() float64 {
	if !c.differs(condMemory) || c.now[condMemory] >= c.old[condMemory] || c.differs(condUncached) {
		return 1
	}
	return min(c.old[condMemory]/c.now[condMemory], c.ratio(condCrowding))
}

// kvLimited is engines whose KV caches are full before their slots are.
func kvLimited(m *measurements, _ *regime, e effect) (Cause, bool) {
	now := m.kvOver(e.after)
	if !now.short() || !m.starving() && e.jump == nil {
		return Cause{}, false
	}
	text := fmt.Sprintf("%s of an engine's KV cache is in use, by %s running requests; %s more wait inside it",
		units.Percent(now.share), units.Number(now.running), units.Number(now.waiting))
	if now.limit > 0 {
		text += fmt.Sprintf(", which may have %s in flight", units.Number(now.limit))
	}
	if now.preempted >= kvPreempted {
		text += fmt.Sprintf("; %s preemptions for each request answered, whose work is done again",
			units.Number(now.preempted))
	}
	one := decided(CauseKVLimited, IsCause, text, Measured)
	one.Evidence = []Evidence{{text, Measured}}
	one.Fix = kvFix(m)
	return one, true
}

// kvFit is how many requests an engine's KV cache has room for; false where engines do not say.
func kvFit(m *measurements) (int, bool) {
	now := m.kvOver(m.present)
	if now.sec == 0 || now.share < kvTold {
		return 0, false
	}
	return max(1, int(math.Floor(kvFull*now.running/now.share))), true
}

// kvFix is more room, or less to hold. Fewer in flight is a remedy only for preemptions: requests that wait inside an
// engine would wait in front of it.
func kvFix(m *measurements) *Fix {
	const text = "give the engines' KV caches more room (--gpu-memory-utilization, --kv-cache-dtype fp8, more GPUs for " +
		"each engine), make contexts shorter (prompts, sampling.max_tokens), or add engines"
	now := m.kvOver(m.present)
	if limit, known := kvFit(m); known && now.preempted >= kvPreempted && float64(limit) < now.running+now.waiting {
		return fix(m, "keep as few requests in flight as the KV caches have room for, so that none is preempted; or "+text,
			setCommand(m, fmt.Sprintf("dispatch.max_in_flight_per_engine=%d", limit)))
	}
	return fix(m, text, m.moreEngines())
}

func (k *kvUse) text() string {
	text := fmt.Sprintf("%s of an engine's is in use by %s running requests, and %s wait inside it",
		units.Percent(k.share), units.Number(k.running), units.Number(k.waiting))
	if k.preempted > 0 {
		text += fmt.Sprintf("; %s preemptions for each request answered", units.Number(k.preempted))
	}
	return text
}
