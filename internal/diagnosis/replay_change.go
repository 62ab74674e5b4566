package diagnosis

// change is what differs from the run as it was recorded. The zero value is the run itself. A factor multiplies what
// was recorded; 0 leaves it as it is. Seconds are added, and taken away where they are negative.
type change struct {
	engines    float64 // factor on the number of engines
	engineTime float64 // factor on an engine's time per token, at any load: 0.5 is engines twice as fast
	requestUse float64 // factor on the tokens per request
	gameLength float64 // factor on the requests per game
	games      float64 // factor on the games that are played for each batch: drops, refills and repeats
	envTime    float64 // factor on the time that games spend in their environment
	workers    float64 // factor on the games that workers play at a time
	otherWork  float64 // factor on the requests of other runs at the engines

	computeSec   float64 // of the trainer, per step
	delaySec     float64 // of every group, between its launch and ready, beside being played
	handoverSec  float64 // between a batch that is ready and the trainer
	stallSec     float64 // of each engine, per step, in which it serves nothing
	stragglerCap float64 // quantile of the batch's groups beyond which none takes longer; 0: none is capped

	depth       int // batches outstanding
	groups      int // per step
	engineLimit int // requests in flight at an engine
	// admitted is how many batches staleness lets be outstanding while the trainer works on one.
	admitted int
	// unbounded lifts the bound in bytes.
	unbounded bool
}

// prediction is the steady step under a change: what the replay gives, and 5 % and 95 % of replays with other groups
// and other curves that the record allows.
type prediction struct {
	StepSec, LowSec, HighSec float64
}

// without is the steady step with a change: mostly the run without one of the things that are suspected.
func (p replayModel) without(c change) prediction {
	replayed := p.changed(c).replay(len(p.compute) + horizon)
	sec := steady(replayed)
	return prediction{sec, sec, sec}
}

// changed is the model of the run with a change.
func (p replayModel) changed(c change) replayModel {
	work := factor(c.engineTime) * factor(c.requestUse) * factor(c.gameLength)
	p.work = timesAll(p.work, work*factor(c.games))
	p.latency = timesAll(p.latency, work)
	p.capacity = timesAll(p.capacity, factor(c.engines)*factor(c.workers))
	for i := range p.latency {
		p.latency[i] = max(0, p.latency[i]+c.delaySec)
	}
	p.compute = timesAll(p.compute, 1)
	for k := range p.compute {
		p.compute[k] = max(0, p.compute[k]+c.computeSec)
	}
	if c.stragglerCap > 0 {
		p.latency = capAt(p.latency, quantile(p.latency[p.groupLoop:], c.stragglerCap))
		p.work = capAt(p.work, quantile(p.work[p.groupLoop:], c.stragglerCap))
	}
	if c.admitted > 0 {
		p.stalenessLimit = c.admitted
	}
	if c.depth > 0 {
		p = deeper(c.depth - p.depth[len(p.depth)-1])(p)
	}
	return p
}

func factor(f float64) float64 {
	if f == 0 {
		return 1
	}
	return f
}

func timesAll(values []float64, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * by
	}
	return out
}
