package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// What is kept of older steps is bounded, whatever a run does and however long.
const (
	// OlderBlock is how many steps are summed up at once.
	OlderBlock = 100
	// olderContext is how many steps after a block are looked at with it, so that a change of level at its end is seen as
	// one.
	olderContext = 50
	keptShifts   = 200
	keptLosses   = 40
)

// OlderSteps is how many steps SumUp reads: a block, and its context.
const OlderSteps = OlderBlock + olderContext

// SumUp adds the steps from older.To to older.To+OlderBlock to what is kept of older ones. The records are those of the
// OlderSteps steps from older.To on, in order, as far as there are any. A step without a record, or with one that
// cannot be, is counted as missing: the others are summed up all the same.
func SumUp(older Older, records []steprecord.StepRecord) Older {
	out := older
	out.Shifts = slices.Clone(older.Shifts)
	out.To += OlderBlock
	records = slices.DeleteFunc(slices.Clone(records), func(r steprecord.StepRecord) bool { return r.Step < older.To })
	h := newHistory(records, nil, 0)
	block := 0 // steps of it
	for block < len(h.all) && h.all[block].no < out.To {
		block++
	}
	out.Missing += OlderBlock - block
	if block == 0 {
		return out
	}
	m := measure(Input{Records: records}, h)
	t := timelineOf(&m.history, m.cycle != nil)
	out.Ledger = merged(older.Ledger, *t.ledger(0, block))
	out.addShifts(&m, older.To)
	return out
}

// addShifts keeps the changes of level around a block that begins at a step. What the block before has seen is there.
func (o *Older) addShifts(m *measurements, block rollout.Step) {
	from, to := block+olderContext/2, o.To+olderContext/2
	if block == 0 {
		from = 0
	}
	for i, s := range m.shifts {
		if s.At >= from && s.At < to {
			at := slices.IndexFunc(m.all, func(one step) bool { return one.no == s.At })
			o.Shifts = append(o.Shifts, OldShift{At: s.At, Time: m.all[at].view().GrantedAt,
				BeforeSec: m.levels[i].StepSec, AfterSec: m.levels[i+1].StepSec, First: s.First})
		}
	}
	if n := len(o.Shifts) - keptShifts; n > 0 {
		o.Shifts, o.DroppedShifts = slices.Delete(o.Shifts, 0, n), o.DroppedShifts+n
	}
}

// From is the summary of older steps if the next recorded step is next: those between are missing.
func (o Older) From(next rollout.Step) Older {
	if gap := next - o.To; gap > 0 {
		o.Missing, o.To = o.Missing+int(gap), next
	}
	return o
}

// merged is the ledger of two stretches of steps, the later one second.
func merged(a, b Ledger) Ledger {
	if a.Steps == 0 {
		return b
	}
	if b.Steps == 0 {
		return a
	}
	out := Ledger{
		From: a.From, To: b.To, Steps: a.Steps + b.Steps, WallSec: a.WallSec + b.WallSec,
		PrefillSec: a.PrefillSec + b.PrefillSec, Phases: map[steprecord.Phase]float64{}, Losses: slices.Clone(a.Losses),
	}
	for _, phase := range steprecord.Phases() {
		if sec := a.Phases[phase] + b.Phases[phase]; phase != steprecord.PhaseWait {
			out.Phases[phase] = sec
		}
	}
	for _, loss := range b.Losses {
		at := slices.IndexFunc(out.Losses, func(l Loss) bool { return l.sameAs(loss) })
		if at < 0 {
			out.Losses = append(out.Losses, loss)
			continue
		}
		out.Losses[at] = out.Losses[at].and(loss)
	}
	out.balance()
	for len(out.Losses) > keptLosses { // the two smallest become one
		n := len(out.Losses)
		l := out.Losses[n-2].and(out.Losses[n-1])
		l.Name, l.Every, l.Wait = "other", 0, nil
		out.Losses = append(out.Losses[:n-2], l)
		out.balance()
	}
	return out
}

// sameAs reports whether two losses are of the same kind: a recurring loss comes back after as many steps.
func (l Loss) sameAs(other Loss) bool {
	return l.Cause == other.Cause && l.Phase == other.Phase && l.Name == other.Name &&
		(l.Every == other.Every || l.Cause == CauseCheckpoint)
}

// and joins a later loss of the same kind.
func (l Loss) and(later Loss) Loss {
	l.Last = max(l.Last, later.Last)
	l.First = min(l.First, later.First)
	if later.WorstSec > l.WorstSec {
		l.Worst, l.WorstSec = later.Worst, later.WorstSec
	}
	l.Every = cmp.Or(l.Every, later.Every)
	l.Steps += later.Steps
	l.Sec += later.Sec
	var wait byPlace
	for _, part := range slices.Concat(l.Wait, later.Wait) {
		wait.add(part.Place, part.Sec)
	}
	l.Wait = wait.parts()
	return l
}

// Older is the summary of steps that are no longer kept one by one.
type Older struct {
	To     rollout.Step `json:"to_step"` // the first step that is not in it
	Ledger Ledger       `json:"ledger"`
	Shifts []OldShift   `json:"shifts"` // the newest ones, in order
	// DroppedShifts is how many older ones are not kept.
	DroppedShifts int `json:"dropped_shifts,omitempty"`
	// Missing is how many of the steps before To are not in the ledger: no record, or one that cannot be.
	Missing int `json:"missing_steps,omitempty"`
}

// OldShift is a change of level among older steps.
type OldShift struct {
	At        rollout.Step     `json:"at_step"`
	Time      time.Time        `json:"at"`
	BeforeSec float64          `json:"before_seconds"`
	AfterSec  float64          `json:"after_seconds"`
	First     steprecord.Phase `json:"first_cause"`
}
