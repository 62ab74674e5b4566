package diagnosis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Ledger accounts for every second of a run's steps: UsefulSec and the losses add up to WallSec. The wait before step 0
// is not included.
type Ledger struct {
	From  rollout.Step `json:"from_step"`
	To    rollout.Step `json:"to_step"`
	Steps int          `json:"steps"`
	// WallSec is the steps' wall time and the time between them, in which the trainer had no step.
	WallSec    float64 `json:"wall_seconds"`
	UsefulSec  float64 `json:"useful_seconds"`
	LostSec    float64 `json:"lost_seconds"`
	LostShare  float64 `json:"lost_share"` // of WallSec
	PrefillSec float64 `json:"prefill_seconds"`
	// Phases is UsefulSec by phase.
	Phases map[steprecord.Phase]float64 `json:"useful_phase_seconds"`
	Losses []Loss                       `json:"losses"` // the largest first; none is negative
}

// Loss is time that went into something other than useful compute, by what it was.
type Loss struct {
	Cause CauseName        `json:"cause"`
	Phase steprecord.Phase `json:"phase,omitempty"` // of the trainer, in which it was lost; empty between steps
	// Name is what the trainer called the phase, if by a name of its own.
	Name     string       `json:"name,omitempty"`
	Every    int          `json:"every_steps,omitempty"` // it comes back after so many steps; 0: at no fixed distance
	Steps    int          `json:"steps"`                 // in which it was lost
	First    rollout.Step `json:"first_step"`
	Last     rollout.Step `json:"last_step"`
	Worst    rollout.Step `json:"worst_step"` // the longest of its steps
	WorstSec float64      `json:"worst_step_seconds"`
	Sec      float64      `json:"seconds"`
	Share    float64      `json:"share"` // of the ledger's WallSec
	Text     string       `json:"text"`
	Wait     []WaitPart   `json:"wait_parts,omitempty"` // of starvation: where the last group was; they add up to Sec
}

// PerStepSec is what one of its steps lost.
func (l Loss) PerStepSec() float64 { return l.Sec / float64(max(l.Steps, 1)) }

const (
	// usualPublish is the share of a step that publishing may take and be a part of the work.
	usualPublish = 0.06
	// isolatedWait is the share of the compute time that a wait between two steps without one must take to be a slow
	// step of its own, and no starvation.
	isolatedWait = 0.5
)

// lossKey tells losses apart.
type lossKey struct {
	cause CauseName
	phase steprecord.Phase
	name  string
	every int
}

// lost is time of one step that went into something other than useful compute.
type lost struct {
	lossKey
	at    int       // position in history.all
	sec   float64   // all of it
	phase []float64 // of which phases, by position in rollout.Phases; empty between steps
	wait  byPlace   // of a wait: where the last group was
}

// timeline is where the time of each step went.
type timeline struct {
	h       *history
	gaps    []float64 // seconds before each step in which the trainer had none
	lost    []lost
	compute computeLevels
}

// timelineOf splits every step. The usual compute of a step is its level's. The floor is the least of these levels, so
// that an early jump does not make slow steps the measure of the others.
func timelineOf(h *history, cyclic bool) timeline {
	t := timeline{h: h, gaps: gapsBetween(h.all), compute: computeLevelsOf(h.all)}
	for i := range h.all {
		t.between(i)
		t.named(i)
		t.waited(i, cyclic)
	}
	t.lost = append(t.lost, t.compute.lost(h.all)...)
	t.recount()
	return t
}

// recount makes waits that stand alone starvation after all, if there are several: then it is a pattern.
func (t *timeline) recount() {
	var alone []*lost
	for i := range t.lost {
		if one := &t.lost[i]; one.cause == CauseSingleStep && one.lossKey.phase == steprecord.PhaseWait {
			alone = append(alone, one)
		}
	}
	if len(alone) <= max(1, len(t.h.all)/20) {
		return
	}
	for _, one := range alone {
		one.cause = CauseStarvation
	}
}

// gapsBetween is how long before each step the trainer had no step, by the service's clock.
func gapsBetween(all []step) []float64 {
	gaps := make([]float64, len(all))
	for i := 1; i < len(all); i++ {
		before, s := &all[i-1], &all[i]
		v := s.view()
		if before.view().CompletedAt.IsZero() || v.CompletedAt.IsZero() || s.no != before.no+1 {
			continue
		}
		// What a process did that was gone before it completed the step is in no record.
		gap := units.SecondsBetween(before.view().CompletedAt, v.CompletedAt) - s.wall
		if !s.takenOver(before) {
			gap = min(gap, units.SecondsBetween(before.view().CompletedAt, v.FirstAskedAt))
		}
		if gap > 0.001*s.wall { // and not the clocks of two machines
			gaps[i] = gap
		}
	}
	return gaps
}

// takenOver reports whether another trainer process completed the step than the one before.
func (s *step) takenOver(before *step) bool {
	return before.rec.Generation > 0 && s.rec.Generation > before.rec.Generation
}

// between is the time before a step.
func (t *timeline) between(i int) {
	if t.gaps[i] == 0 {
		return
	}
	key := lossKey{cause: CauseBetweenSteps}
	if t.h.all[i].takenOver(&t.h.all[i-1]) {
		key.cause = CauseRestart
	}
	t.lost = append(t.lost, lost{lossKey: key, at: i, sec: t.gaps[i]})
}

// named is the time that the trainer itself reports as no training: checkpoints and evaluations.
func (t *timeline) named(i int) {
	s := &t.h.all[i]
	if sec := s.phases[checkpointAt]; sec > 0 {
		t.lost = append(t.lost,
			lostIn(i, checkpointAt, lossKey{cause: CauseCheckpoint, phase: steprecord.PhaseCheckpoint}, sec))
	}
	for _, name := range slices.Sorted(maps.Keys(s.rec.Trainer.Phases)) {
		if sec := s.rec.Trainer.Phases[name]; evaluates(name) && sec > 0 {
			key := lossKey{cause: CauseRarePhase, phase: steprecord.PhaseOther, name: string(name)}
			t.lost = append(t.lost, lostIn(i, otherAt, key, sec))
		}
	}
}

// evaluates reports whether a phase is an evaluation, by the name that the trainer gave it.
func evaluates(phase steprecord.Phase) bool { return strings.HasPrefix(string(phase), "eval") }

// waited is the wait for the batch: starvation, or a slow step if it stands alone.
func (t *timeline) waited(i int, cyclic bool) {
	s := &t.h.all[i]
	if s.wait() <= 0 {
		return
	}
	key := lossKey{cause: CauseStarvation, phase: steprecord.PhaseWait}
	calm := func(k int) bool {
		return k < 0 || k < len(t.h.all) && t.h.all[k].wait() <= starvedShare*t.h.all[k].compute()
	}
	if s.paused {
		key.cause = CausePaused
	} else if !cyclic && s.wait() > isolatedWait*s.compute() && calm(i-1) && calm(i+1) {
		key.cause = CauseSingleStep
	}
	one := lostIn(i, waitAt, key, s.wait())
	one.wait = s.waitByPlace()
	t.lost = append(t.lost, one)
}

// lostIn is time of one phase of a step.
func lostIn(i, phase int, key lossKey, sec float64) lost {
	one := lost{lossKey: key, at: i, sec: sec, phase: make([]float64, len(steprecord.Phases()))}
	one.phase[phase] = sec
	return one
}

// starvedBy names the cause of the waits from a step on.
func (t *timeline) starvedBy(cause CauseName, since rollout.Step) {
	for i := range t.lost {
		if one := &t.lost[i]; one.cause == CauseStarvation && t.h.all[one.at].no >= since {
			one.cause = cause
		}
	}
}

// ledger sums the timeline up over the steps [from, to) of the history.
func (t *timeline) ledger(from, to int) *Ledger {
	l := &Ledger{Phases: map[steprecord.Phase]float64{}, Losses: []Loss{}, Steps: to - from}
	if from >= to {
		return l
	}
	l.From, l.To = t.h.all[from].no, t.h.all[to-1].no
	useful := make([]float64, len(steprecord.Phases()))
	for i := from; i < to; i++ {
		s := &t.h.all[i]
		l.WallSec += s.wall + t.gaps[i]
		l.PrefillSec += s.prefill
		for p, sec := range s.phases {
			useful[p] += sec
		}
	}
	by := map[lossKey][]lost{}
	for _, one := range t.lost {
		if one.at < from || one.at >= to {
			continue
		}
		by[one.lossKey] = append(by[one.lossKey], one)
		for p, sec := range one.phase {
			useful[p] -= sec
		}
	}
	for key, parts := range by {
		l.Losses = append(l.Losses, t.loss(key, parts))
	}
	for p, phase := range steprecord.Phases() {
		if phase != steprecord.PhaseWait {
			l.Phases[phase] = roundOff(useful[p], l.WallSec)
		}
	}
	l.balance()
	return l
}

// balance sets what follows from the wall time and the losses.
func (l *Ledger) balance() {
	slices.SortFunc(l.Losses, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(b.Sec, a.Sec), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Every, b.Every))
	})
	l.LostSec = 0
	for i := range l.Losses {
		l.LostSec += l.Losses[i].Sec
	}
	l.UsefulSec = l.WallSec - l.LostSec
	for i := range l.Losses {
		if l.WallSec > 0 {
			l.Losses[i].Share = l.Losses[i].Sec / l.WallSec
		}
		l.Losses[i].Text = l.Losses[i].text()
	}
	if l.WallSec > 0 {
		l.LostShare = l.LostSec / l.WallSec
	}
}

// Goodput is the share of the wall time that was useful compute.
func (l *Ledger) Goodput() float64 {
	if l.WallSec == 0 {
		return 0
	}
	return l.UsefulSec / l.WallSec
}

// loss sums up what was lost in several steps by one cause.
func (t *timeline) loss(key lossKey, parts []lost) Loss {
	out := Loss{Cause: key.cause, Phase: key.phase, Name: key.name, Every: key.every}
	var steps []rollout.Step
	var wait byPlace
	for _, one := range parts {
		no := t.h.all[one.at].no
		steps = append(steps, no)
		out.Sec += one.sec
		if sec := t.h.all[one.at].wall; sec > out.WorstSec {
			out.Worst, out.WorstSec = no, sec
		}
		for p, sec := range one.wait {
			wait[p] += sec
		}
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	out.Steps, out.First, out.Last = len(steps), steps[0], steps[len(steps)-1]
	out.Wait = wait.parts()
	switch key.cause {
	case CauseCheckpoint, CausePeriodicPhase, CauseRarePhase:
		if out.Every == 0 {
			out.Every = spacing(steps)
		}
		if key.cause == CauseRarePhase && out.Every > 0 {
			out.Cause = CausePeriodicPhase
		}
	}
	return out
}

// parts is the places that took any time.
func (b *byPlace) parts() []WaitPart {
	var parts []WaitPart
	for i, place := range places() {
		if b[i] != 0 {
			parts = append(parts, WaitPart{place, b[i]})
		}
	}
	return parts
}

// leastRepeats is how often something must come back before it is called periodic.
const leastRepeats = 3

// spacing is the number of steps after which something comes back, if nearly all of its distances are that number or,
// where one was left out, twice it; else 0.
func spacing(steps []rollout.Step) int {
	if len(steps) < leastRepeats {
		return 0
	}
	counts := map[int]int{}
	for i := 1; i < len(steps); i++ {
		counts[int(steps[i]-steps[i-1])]++
	}
	every, most := 0, 0
	for gap, n := range counts {
		if n > most || n == most && gap < every {
			every, most = gap, n
		}
	}
	if 5*(most+counts[2*every]) < 4*(len(steps)-1) || 2*most < len(steps)-1 {
		return 0
	}
	return every
}
