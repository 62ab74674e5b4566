package diagnosis

import (
	"math"
)

// present is the model of the last level alone, over and over, without an end and without what was before.
func (p *replayModel) present() *replayModel {
	q := *p
	q.groups, q.groupLoop = p.groups[p.groupLoop:], 0
	q.steps, q.stepLoop = p.steps[p.stepLoop:], 0
	q.windows, q.total = nil, 0
	q.first = q.steps[0].take
	return &q
}

// steadyStep is the mean step that a model of the present comes to.
func (p *replayModel) steadyStep() float64 {
	warm, span := p.span()
	return endWall(p.replay(warm+span), span)
}

// stepWith is the steady step of the present level with a change.
func (p *replayModel) stepWith(c change) float64 { return p.changed(c).present().steadyStep() }

// span is how many steps a replay takes to forget how it began, and how many its steady state is measured over: whole
// cycles of the depth and of the recorded steps, and enough groups.
func (p *replayModel) span() (warm, span int) {
	last := p.steps[len(p.steps)-1]
	cycle := max(1, min(last.depth, p.stalenessLimit+1))
	span = max(16, min(steadySteps, 2400/max(1, last.take)))
	span = (span + cycle - 1) / cycle * cycle
	return max(8, 3*cycle), span
}

// endWall is the mean of the last steps.
func endWall(steps []replayedStep, last int) float64 {
	return meanWall(steps[max(0, len(steps)-last):])
}

func meanWall(steps []replayedStep) float64 {
	sum := 0.0
	for _, s := range steps {
		sum += s.wall
	}
	return sum / math.Max(1, float64(len(steps)))
}
