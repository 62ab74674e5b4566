package diagnosis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// lastSteps bounds the steps that are looked at: the detector's cost grows with their cube.
const lastSteps = 500

// rareShare is the share of a step above which a checkpoint or an evaluation makes it incomparable.
const rareShare = 0.05

// manySteps times the depth is after how many steps those at the end of a run say nothing of how it is.
const manySteps = 5

// step is one completed step, with the wait before the first step taken out.
type step struct {
	no      rollout.Step
	wall    float64
	phases  []float64 // by position in rollout.Phases; they sum to wall
	prefill float64
	paused  bool // the run was, for a part of it
	ending  bool // of a run of many steps, with fewer batches outstanding than its depth: nothing is launched any more
	rec     *steprecord.StepRecord
}

// Positions in step.phases.
var (
	waitAt       = slices.Index(steprecord.Phases(), steprecord.PhaseWait)
	loadAt       = slices.Index(steprecord.Phases(), steprecord.PhaseLoad)
	refAt        = slices.Index(steprecord.Phases(), steprecord.PhaseRefLogprobs)
	trainAt      = slices.Index(steprecord.Phases(), steprecord.PhaseTrain)
	publishAt    = slices.Index(steprecord.Phases(), steprecord.PhasePublish)
	checkpointAt = slices.Index(steprecord.Phases(), steprecord.PhaseCheckpoint)
	otherAt      = slices.Index(steprecord.Phases(), steprecord.PhaseOther)
)

func (s *step) seconds() float64 { return s.wall }
func (s *step) wait() float64    { return s.phases[waitAt] }
func (s *step) compute() float64 { return s.wall - s.wait() }

// phaseSec is the time of the phase at a position.
func phaseSec(at int) func(*step) float64 { return func(s *step) float64 { return s.phases[at] } }

// view is what the service saw.
func (s *step) view() *steprecord.ServiceView { return &s.rec.Service }

// history is the completed steps in order, and those set aside because they did more than others.
type history struct {
	all   []step // in order of their number
	steps []step // all, less the rare and the paused ones
	notes []string
}

// newHistory keeps the completed steps of the records, in order.
func newHistory(records []steprecord.StepRecord, pauses []pause, total int) history {
	var h history
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b steprecord.StepRecord) int { return cmp.Compare(a.Step, b.Step) })
	for i := range sorted {
		r := &sorted[i]
		if !r.Done {
			continue
		}
		s, err := newStep(r)
		if err != nil {
			h.notes = append(h.notes, fmt.Sprintf("step %d is left out: %v", r.Step, err))
			continue
		}
		s.paused = pausedIn(pauses, &s)
		s.ending = total > 0 && int(s.no)+r.Service.Depth > total && int(s.no) >= manySteps*r.Service.Depth
		if n := len(h.all); n > 0 && h.all[n-1].no == s.no {
			h.all[n-1] = s // recorded again after a rewind
			continue
		}
		h.all = append(h.all, s)
	}
	if n := len(h.all); n > lastSteps {
		h.notes = append(h.notes, fmt.Sprintf("only the last %d of %d steps are looked at", lastSteps, n))
		h.all = h.all[n-lastSteps:]
	}
	steps, rare, paused := usualSteps(h.all)
	if rare > 0 {
		h.notes = append(h.notes, fmt.Sprintf(
			"%d of %d steps wrote a checkpoint or evaluated, and are left out of the levels", rare, len(h.all)))
	}
	if paused > 0 {
		h.notes = append(h.notes, fmt.Sprintf(
			"%d of %d steps fell into a pause of the run, and are left out of the levels", paused, len(h.all)))
	}
	h.steps = steps
	return h
}

// newStep takes a record apart. What the trainer did not report is filled in from the service's clock.
func newStep(r *steprecord.StepRecord) (step, error) {
	s := step{no: r.Step, wall: r.Trainer.WallSec, rec: r, phases: make([]float64, len(steprecord.Phases()))}
	known := 0.0
	for i, phase := range steprecord.Phases() {
		sec := r.Trainer.Phases[phase]
		if !(sec >= 0) || math.IsInf(sec, 1) {
			return step{}, fmt.Errorf("its %s phase took %v s", phase, sec)
		}
		s.phases[i] = sec
		known += sec
	}
	asked := r.Service.FirstAskedAt
	if _, reported := r.Trainer.Phases[steprecord.PhaseWait]; !reported {
		s.phases[waitAt] = max(0, units.SecondsBetween(asked, r.Service.GrantedAt))
		known += s.phases[waitAt]
	}
	if s.wall == 0 {
		s.wall = max(known, units.SecondsBetween(asked, r.Service.CompletedAt))
	}
	if known > 2*s.wall {
		return step{}, fmt.Errorf("its phases sum to %s in a wall time of %s", units.Seconds(known), units.Seconds(s.wall))
	}
	if s.no == 0 {
		s.prefill = max(s.phases[waitAt], units.SecondsBetween(asked, r.Service.GrantedAt))
		s.wall -= s.phases[waitAt]
		known -= s.phases[waitAt]
		s.phases[waitAt] = 0
	}
	if !(s.wall > 0) || math.IsInf(s.wall, 1) {
		return step{}, fmt.Errorf("its wall time is %v s", r.Trainer.WallSec)
	}
	// "other" is the trainer's own phases, and the time that no phase covers. Clocks may disagree by a little; then
	// other is negative, and the sum is still exact.
	s.phases[otherAt] += s.wall - known
	return s, nil
}

// usualSteps leaves out the steps that checkpointed or evaluated, or fell into a pause, when most others did not, and
// counts them: their length says nothing about the others'.
func usualSteps(all []step) (steps []step, rare, paused int) {
	for i := range all {
		switch s := &all[i]; {
		case s.paused:
			paused++
		case s.rare():
			rare++
		default:
			steps = append(steps, *s)
		}
	}
	if 2*len(steps) <= len(all) {
		return slices.Clone(all), 0, 0
	}
	return steps, rare, paused
}

func (s *step) rare() bool {
	if s.phases[checkpointAt] > rareShare*s.wall {
		return true
	}
	for phase, sec := range s.rec.Trainer.Phases {
		if strings.HasPrefix(string(phase), "eval") && sec > rareShare*s.wall {
			return true
		}
	}
	return false
}

// walls is the step times, in order.
func (h *history) walls() []float64 { return h.values(positions(0, len(h.steps)), (*step).seconds) }

// levelSteps is the steps of one level: positions in history.steps.
type levelSteps struct {
	from, to int   // [from, to)
	usual    []int // without the level's slow steps
}

// splitLevels turns the detector's segments into levels. Without an answer all steps are one level.
func (h *history) splitLevels(r changepoint.Result) []levelSteps {
	segments := r.Segments
	if len(segments) == 0 && len(h.steps) > 0 {
		segments = []changepoint.Segment{{From: 0, To: len(h.steps)}}
	}
	var out []levelSteps
	for _, seg := range segments {
		s := levelSteps{from: seg.From, to: seg.To}
		for i := seg.From; i < seg.To; i++ {
			if !slices.Contains(r.Outliers, i) {
				s.usual = append(s.usual, i)
			}
		}
		if len(s.usual) < (seg.To-seg.From+1)/2 { // most are outliers: it oscillates, and none is the odd one
			s.usual = positions(seg.From, seg.To)
		}
		out = append(out, s)
	}
	return out
}

// positions is from, from+1 and so on, without to.
func positions(from, to int) []int {
	out := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// values applies of to the steps at these positions.
func (h *history) values(positions []int, of func(*step) float64) []float64 {
	out := make([]float64, len(positions))
	for k, i := range positions {
		out[k] = of(&h.steps[i])
	}
	return out
}

// mean is their mean; 0 for none.
func (h *history) mean(positions []int, of func(*step) float64) float64 {
	return floats.Sum(h.values(positions, of)) / max(1, float64(len(positions)))
}

// usualCompute is the median of what the trainer needs for a step itself.
func (h *history) usualCompute() float64 {
	return stat.Median(h.values(positions(0, len(h.steps)), (*step).compute))
}

// movingMeans is the mean of every width values in a row.
func movingMeans(x []float64, width int) []float64 {
	var out []float64
	for i := width; i <= len(x); i++ {
		out = append(out, floats.Sum(x[i-width:i])/float64(width))
	}
	return out
}
