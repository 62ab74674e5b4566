package calibration

import (
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Window is steps, the one at To excluded.
type Window struct {
	From rollout.Step `json:"from"`
	To   rollout.Step `json:"to"`
	// Row is over how many steps, one after another, a mean is taken first: see MeanStep.
	Row int `json:"row"`
}

// Steps is how many a window has.
func (w Window) Steps() int { return int(max(w.To-w.From, 0)) }

// starved is the share of a step's own work from which on waiting for the batch counts as starvation.
const starved = 0.1

// Onset is the first step after step 0 whose trainer waited for more than a tenth of its own work; false: none did.
func Onset(records []steprecord.StepRecord) (rollout.Step, bool) {
	for _, r := range records {
		wait := r.Trainer.Phases[steprecord.PhaseWait]
		if r.Done && r.Step > 0 && wait > starved*(r.Trainer.WallSec-wait) {
			return r.Step, true
		}
	}
	return 0, false
}

// Steady is the steps in which runs of one length and depth can be compared: after the onset of starvation in each of
// them, or after as many steps as the buffer is deep, and before the last depth steps, for which nothing is launched
// any more.
func Steady(depth int, runs ...[]steprecord.StepRecord) Window {
	w := Window{From: rollout.Step(depth), To: -1, Row: depth}
	for _, records := range runs {
		end := rollout.Step(0)
		for _, r := range records {
			if r.Done {
				end = max(end, r.Step+1)
			}
		}
		if end -= rollout.Step(depth); w.To < 0 || end < w.To {
			w.To = end
		}
		if onset, ok := Onset(records); ok {
			w.From = max(w.From, onset+1)
		}
	}
	w.To = max(w.To, w.From)
	return w
}

// MeanStep is the mean time of a window's steps in seconds; 0 where it has none. The steps of a run that waits for its
// games go up and down with a period of its depth, so that a plain mean would depend on where the window begins: it is
// the mean over all rows of so many steps in it.
func (w Window) MeanStep(records []steprecord.StepRecord) float64 {
	var steps []float64
	for _, r := range records {
		if r.Done && r.Step >= w.From && r.Step < w.To {
			steps = append(steps, r.StepSec())
		}
	}
	if len(steps) == 0 {
		return 0
	}
	row := max(1, min(w.Row, len(steps)))
	sum, rows := 0.0, 0
	for i := 0; i+row <= len(steps); i++ {
		for _, sec := range steps[i : i+row] {
			sum += sec / float64(row)
		}
		rows++
	}
	return sum / float64(rows)
}
