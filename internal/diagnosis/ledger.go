package diagnosis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

// lastSteps bounds the steps that are looked at: the detector's cost grows with their cube.
const lastSteps = 500

// rareShare is the share of a step above which a checkpoint or an evaluation makes it incomparable.
const rareShare = 0.05

// step is one completed step, with the wait before the first step taken out.
type step struct {
	no      rollout.Step
	wall    float64
	phases  []float64 // by position in rollout.Phases; they sum to wall
	prefill float64
	rec     *rollout.StepRecord
}

// Positions in step.phases.
var (
	waitAt       = slices.Index(rollout.Phases(), rollout.PhaseWait)
	refAt        = slices.Index(rollout.Phases(), rollout.PhaseRefLogprobs)
	publishAt    = slices.Index(rollout.Phases(), rollout.PhasePublish)
	checkpointAt = slices.Index(rollout.Phases(), rollout.PhaseCheckpoint)
	otherAt      = slices.Index(rollout.Phases(), rollout.PhaseOther)
)

func (s *step) seconds() float64 { return s.wall }
func (s *step) wait() float64    { return s.phases[waitAt] }
func (s *step) compute() float64 { return s.wall - s.wait() }

// view is what the service saw.
func (s *step) view() *rollout.ServiceView { return &s.rec.Service }

// ledger is the completed steps in order, and those set aside because they did more than others.
type ledger struct {
	all   []step // in order of their number
	steps []step // all, less the rare ones
	notes []string
}

func newLedger(records []rollout.StepRecord) ledger {
	var l ledger
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b rollout.StepRecord) int { return cmp.Compare(a.Step, b.Step) })
	for i := range sorted {
		r := &sorted[i]
		if !r.Done {
			continue
		}
		s, err := newStep(r)
		if err != nil {
			l.notes = append(l.notes, fmt.Sprintf("step %d is left out: %v", r.Step, err))
			continue
		}
		if n := len(l.all); n > 0 && l.all[n-1].no == s.no {
			l.all[n-1] = s // recorded again after a rewind
			continue
		}
		l.all = append(l.all, s)
	}
	if n := len(l.all); n > lastSteps {
		l.notes = append(l.notes, fmt.Sprintf("only the last %d of %d steps are looked at", lastSteps, n))
		l.all = l.all[n-lastSteps:]
	}
	l.setRareAside()
	return l
}

// newStep takes a record apart. What the trainer did not report is filled in from the service's clock.
func newStep(r *rollout.StepRecord) (step, error) {
	s := step{no: r.Step, wall: r.Trainer.WallSec, rec: r, phases: make([]float64, len(rollout.Phases()))}
	known := 0.0
	for i, phase := range rollout.Phases() {
		sec := r.Trainer.Phases[phase]
		if !(sec >= 0) || math.IsInf(sec, 1) {
			return step{}, fmt.Errorf("its %s phase took %v s", phase, sec)
		}
		s.phases[i] = sec
		known += sec
	}
	asked := r.Service.FirstAskedAt
	if _, reported := r.Trainer.Phases[rollout.PhaseWait]; !reported {
		s.phases[waitAt] = max(0, secondsBetween(asked, r.Service.GrantedAt))
		known += s.phases[waitAt]
	}
	if s.wall == 0 {
		s.wall = max(known, secondsBetween(asked, r.Service.CompletedAt))
	}
	if known > 2*s.wall {
		return step{}, fmt.Errorf("its phases sum to %s in a wall time of %s", units.Seconds(known), units.Seconds(s.wall))
	}
	if s.no == 0 {
		s.prefill = max(s.phases[waitAt], secondsBetween(asked, r.Service.GrantedAt))
		s.wall -= s.phases[waitAt]
		known -= s.phases[waitAt]
		s.phases[waitAt] = 0
	}
	if !(s.wall > 0) || math.IsInf(s.wall, 1) {
		return step{}, fmt.Errorf("its wall time is %v s", r.Trainer.WallSec)
	}
	// Phases that the trainer made up, and what the phases leave over, are other. Clocks may disagree
	// by a little; then other is negative, and the sum still exact.
	s.phases[otherAt] += s.wall - known
	return s, nil
}

// secondsBetween is 0 when either time is missing.
func secondsBetween(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return to.Sub(from).Seconds()
}

// setRareAside takes out the steps that checkpointed or evaluated when most others did not: their
// length says nothing about the others'.
func (l *ledger) setRareAside() {
	rare := 0
	for i := range l.all {
		if l.all[i].rare() {
			rare++
		}
	}
	if 2*rare >= len(l.all) {
		rare = 0
	}
	for i := range l.all {
		if rare > 0 && l.all[i].rare() {
			continue
		}
		l.steps = append(l.steps, l.all[i])
	}
	if rare > 0 {
		l.notes = append(l.notes, fmt.Sprintf("%d of %d steps wrote a checkpoint or evaluated, and are left out of the levels", rare, len(l.all)))
	}
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
func (l *ledger) walls() []float64 {
	x := make([]float64, len(l.steps))
	for i := range l.steps {
		x[i] = l.steps[i].wall
	}
	return x
}

// stretch is the steps of one level: positions in ledger.steps.
type stretch struct {
	from, to int   // [from, to)
	usual    []int // without the level's slow steps
}

// stretches turns the detector's segments into levels. Without an answer all steps are one level.
func (l *ledger) stretches(r changepoint.Result) []stretch {
	segments := r.Segments
	if len(segments) == 0 && len(l.steps) > 0 {
		segments = []changepoint.Segment{{From: 0, To: len(l.steps)}}
	}
	var out []stretch
	for _, seg := range segments {
		s := stretch{from: seg.From, to: seg.To}
		for i := seg.From; i < seg.To; i++ {
			if !slices.Contains(r.Outliers, i) {
				s.usual = append(s.usual, i)
			}
		}
		if len(s.usual) < (seg.To-seg.From+1)/2 { // most are outliers: it oscillates, and none is the odd one
			s.usual = all(seg.From, seg.To)
		}
		out = append(out, s)
	}
	return out
}

func all(from, to int) []int {
	out := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// mean is the mean of what of(step) gives over the steps at these positions; 0 for none.
func (l *ledger) mean(positions []int, of func(*step) float64) float64 {
	if len(positions) == 0 {
		return 0
	}
	sum := 0.0
	for _, i := range positions {
		sum += of(&l.steps[i])
	}
	return sum / float64(len(positions))
}
