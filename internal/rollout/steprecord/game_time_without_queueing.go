package steprecord

// UnqueuedSec is how long a group's game took, or would have taken, without waiting for slots in the dispatcher's
// queue.
//
// EpisodeSec begins when the first phase's requests are dispatched, so that it lacks their time in the queue; QueueSec
// has it, and no record says how much of it that was. So the time is at least EpisodeSec less QueueSec, which is right
// for a game whose first phase did not wait; and at least what the engines and the environment took, which is right
// but for the few milliseconds between phases. Where a phase asks several agents, the request that waited longest is
// recorded, which need not be the one that an engine took longest for: then both are a little too short.
func (g *GroupView) UnqueuedSec(game int) float64 {
	at := func(values []float64) float64 {
		if game < len(values) {
			return values[game]
		}
		return 0
	}
	return max(0, at(g.EpisodeSec)-at(g.QueueSec), at(g.ModelSec)+at(g.EnvSec))
}
