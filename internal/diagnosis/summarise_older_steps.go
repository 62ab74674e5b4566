package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// selected is the input with the steps that are asked about alone. Of more than can be looked at one by one the older
// ones are summed up.
func (in Input) selected() Input {
	var records []steprecord.StepRecord
	for _, r := range in.Records {
		switch {
		case !r.Done || in.First != nil && r.Step < *in.First || in.Last != nil && r.Step > *in.Last:
		case in.Older != nil && r.Step < in.Older.To: // it is counted there
		default:
			records = append(records, r)
		}
	}
	slices.SortStableFunc(records, func(a, b steprecord.StepRecord) int { return cmp.Compare(a.Step, b.Step) })
	in.NotLookedAt = slices.Clone(in.NotLookedAt)
	if in.First != nil || in.Last != nil {
		in.recorded, in.Older = in.Records, nil
		in.NotLookedAt = append(in.NotLookedAt, fmt.Sprintf("other steps than those asked about, %s", in.asked()))
	}
	for len(records) > lastSteps {
		var older Older
		if in.Older != nil {
			older = *in.Older
		}
		next := SumUp(older.From(records[0].Step), records[:OlderSteps])
		in.Older = &next
		records = slices.DeleteFunc(records, func(r steprecord.StepRecord) bool { return r.Step < next.To })
	}
	in.Records = records
	return in
}

// From is the summary of older steps if the next recorded step is next: those between are missing.
func (o Older) From(next rollout.Step) Older {
	if gap := next - o.To; gap > 0 {
		o.Missing, o.To = o.Missing+int(gap), next
	}
	return o
}

// asked is the steps that were asked about, in words.
func (in Input) asked() string {
	switch {
	case in.First == nil:
		return fmt.Sprintf("up to %d", *in.Last)
	case in.Last == nil:
		return fmt.Sprintf("from %d on", *in.First)
	}
	return fmt.Sprintf("%d to %d", *in.First, *in.Last)
}

// NoneAsked reports, in words, the steps asked for if no completed one of them is among the records.
func (in Input) NoneAsked() (steps string, none bool) {
	if in.First == nil && in.Last == nil || len(in.selected().Records) > 0 {
		return "", false
	}
	return in.asked(), true
}

// notLookedAt lists what the report does not cover.
func (in Input) notLookedAt(first rollout.Step) []string {
	out := append([]string{}, in.NotLookedAt...)
	switch {
	case in.Older != nil && in.Older.Ledger.Steps == 0:
		out = append(out, fmt.Sprintf("steps 0-%d: their records are missing", in.Older.To-1))
	case in.Older != nil:
		if n := in.Older.Ledger.From; n > 0 {
			out = append(out, fmt.Sprintf("steps 0-%d: nothing is kept of them", n-1))
		}
		out = append(out, fmt.Sprintf("steps %d-%d one by one: their ledger and %d changes of level are kept",
			in.Older.Ledger.From, in.Older.Ledger.To, len(in.Older.Shifts)))
		if n := in.Older.Missing - int(in.Older.Ledger.From); n > 0 {
			out = append(out, fmt.Sprintf("%d of the steps before %d: their records are missing, or say what cannot be", n,
				in.Older.To))
		}
		if n := in.Older.DroppedShifts; n > 0 {
			out = append(out, fmt.Sprintf("%d changes of level before step %d: the latest %d are kept", n,
				in.Older.Shifts[0].At, keptShifts))
		}
		if in.Older.To < first {
			out = append(out, fmt.Sprintf("steps %d-%d: they are not summed up yet", in.Older.To, first-1))
		}
	case first > 0 && in.First == nil:
		out = append(out, fmt.Sprintf("steps 0-%d: nothing is kept of them", first-1))
	}
	return out
}

// holes lists steps within the range that have no record, or one that was left out.
func (h *history) holes() []string {
	var gaps []string
	for i := 1; i < len(h.all); i++ {
		switch from, to := h.all[i-1].no+1, h.all[i].no-1; {
		case from == to:
			gaps = append(gaps, fmt.Sprint(from))
		case from < to:
			gaps = append(gaps, fmt.Sprintf("%d-%d", from, to))
		}
	}
	const named = 5
	if n := len(gaps); n > named {
		gaps = append(gaps[:named], fmt.Sprintf("and %d more gaps", n-named))
	}
	if len(gaps) == 0 {
		return nil
	}
	return []string{"steps " + strings.Join(gaps, ", ") + ": there is no record of them, or it was left out"}
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
	if l.Every == 0 {
		l.Every = later.Every
	}
	l.Steps += later.Steps
	l.Sec += later.Sec
	var wait byPlace
	for _, part := range slices.Concat(l.Wait, later.Wait) {
		wait.add(part.Place, part.Sec)
	}
	l.Wait = wait.parts()
	return l
}
