package terms

import (
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// computeSteps is of how many steps C is the mean, and groupSteps of how many steps' groups P and R/D are: enough for
// stragglers, and few enough for games whose length drifts.
const (
	computeSteps = 6
	groupSteps   = 2
)

// mostKept bounds what is kept of groups, which goes into a workflow's history with every look: of larger batches
// several groups are one entry.
const mostKept = 32

// Run measures the terms of one run. Its zero value has seen nothing.
type Run struct {
	GroupsPerStep int          `json:"groups_per_step"`
	Depth         int          `json:"depth"`
	Compute       []float64    `json:"compute,omitempty"` // of the newest steps, in seconds
	Newest        []groupsDone `json:"newest,omitempty"`  // groups, as they became ready
}

// groupsDone sums up one ready group, or consecutive ones.
type groupsDone struct {
	Work    float64 `json:"work"`
	Latency float64 `json:"latency"`
	More    int     `json:"more,omitempty"` // groups beside the first
}

// unqueued is how long the group's slowest game took, without waiting for slots.
func unqueued(g *steprecord.GroupView) float64 {
	slowest := 0.0
	for game := range g.EpisodeSec {
		slowest = max(slowest, g.UnqueuedSec(game))
	}
	return slowest
}

// GroupReady adds a ready group. Groups show the cost of a batch before the steps do: the groups of a step were ready
// up to as many steps before as the buffer is deep.
func (r *Run) GroupReady(g *steprecord.GroupView) {
	one := groupsDone{Work: work(g.Usage.InputTokens, g.Usage.CachedTokens, g.Usage.OutputTokens), Latency: unqueued(g)}
	groups := groupSteps * max(1, r.GroupsPerStep)
	each := (groups + mostKept - 1) / mostKept
	if last := len(r.Newest) - 1; last >= 0 && r.Newest[last].More+1 < each {
		r.Newest[last].Work += one.Work
		r.Newest[last].Latency += one.Latency
		r.Newest[last].More++
		return
	}
	r.Newest = newest(append(r.Newest, one), (groups+each-1)/each)
}

// StepDone takes the time that a completed step took without its wait.
func (r *Run) StepDone(computeSec float64) {
	r.Compute = newest(append(r.Compute, computeSec), computeSteps)
}

func newest[T any](of []T, n int) []T {
	if len(of) > n {
		of = append(of[:0], of[len(of)-n:]...)
	}
	return of
}

// Batch is how much work a batch is, by the newest groups, in the unit of engines' rates; 0: not known.
func (r *Run) Batch() float64 {
	work, groups := 0.0, 0.0
	for _, g := range r.Newest {
		work += g.Work
		groups += float64(1 + g.More)
	}
	return work / max(1, groups) * float64(r.GroupsPerStep)
}

// Terms is C, P and R/D in seconds with so many engines; what is not known is 0.
func (r *Run) Terms(engines, rate float64) (c, p, rd float64) {
	for _, sec := range r.Compute {
		c += sec / float64(len(r.Compute))
	}
	groups := 0.0
	for _, g := range r.Newest {
		rd += g.Latency
		groups += float64(1 + g.More)
	}
	rd /= max(1, groups) * float64(max(1, r.Depth))
	if rate <= 0 || engines <= 0 {
		return c, 0, rd
	}
	return c, r.Batch() / (rate * engines), rd
}
