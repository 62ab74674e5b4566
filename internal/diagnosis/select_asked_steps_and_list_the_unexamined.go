package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

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
