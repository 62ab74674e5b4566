package diagnosis

import (
	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// requestSec is a group's work at engines: the time that its requests were in flight, summed.
func requestSec(g *steprecord.GroupView) float64 { return g.Usage.ExecSec }

// gameSec is a group's work at workers: the time of its episodes, which a worker plays one at a time per place.
func gameSec(g *steprecord.GroupView) float64 { return floats.Sum(g.EpisodeSec) }

// batchSum sums of(group) over a step's batch.
func batchSum(of func(*steprecord.GroupView) float64) func(*step) float64 {
	return func(s *step) float64 {
		sum := 0.0
		groups := s.view().Groups
		for i := range groups {
			sum += of(&groups[i])
		}
		return sum
	}
}

// batchMean is the mean of of(group) over a step's batch.
func batchMean(of func(*steprecord.GroupView) float64) func(*step) float64 {
	sum := batchSum(of)
	return func(s *step) float64 { return sum(s) / max(1, float64(len(s.view().Groups))) }
}

// hasGroups reports whether the records say what the engines did for the present batches.
func (m *measurements) hasGroups() bool { return m.mean(m.present, batchSum(requestSec)) > 0 }

// workPerBatch is the request-seconds that the fleet spends on a batch, dropped groups included.
func (m *measurements) workPerBatch() float64 {
	return m.mean(m.present, batchSum(requestSec)) * (1 + m.dropRate(m.present))
}

// dropRate is how many groups were dropped for each one trained on.
func (h *history) dropRate(positions []int) float64 {
	if len(positions) < 2 {
		return 0
	}
	first, last := h.steps[positions[0]].view(), h.steps[positions[len(positions)-1]].view()
	trained := 0
	for _, i := range positions[1:] {
		trained += len(h.steps[i].view().Groups)
	}
	dropped := last.AtClaim.Dropped - first.AtClaim.Dropped
	return max(0, float64(dropped)) / max(1, float64(trained))
}
