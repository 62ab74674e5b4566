// Package reporttext writes a diagnosis report for a person: what is wrong, what to do, since when, and the evidence,
// on one screen; and all of its tables for those who ask. What a report says is decided in package diagnosis.
package reporttext

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

const (
	// levelsShown bounds the columns of the table of levels; the last ones say how the run is now.
	levelsShown = 4
	// evidenceLines, fleetLines and notesShown bound the first screen.
	evidenceLines, fleetLines, notesShown = 10, 4, 2
)

// Write writes the first screen of the report.
func Write(w io.Writer, r diagnosis.Report) error {
	p := &page{}
	p.firstScreen(r)
	if r.Priced() {
		p.price(r)
	}
	p.list("MISSING", first(r.Missing, notesShown))
	p.list("SCALING", first(r.Scaling, notesShown))
	p.list("NOTE", first(r.Notes, notesShown))
	_, err := w.Write(p.Bytes())
	return err
}

// WriteVerbose writes all of the report.
func WriteVerbose(w io.Writer, r diagnosis.Report) error {
	p := &page{}
	p.firstScreen(r)
	p.levels(r)
	p.ledger(r.Ledger)
	p.older(r)
	p.prefill(r.Prefill)
	p.regime(r.Regime)
	if len(r.WhatIfs) > 0 {
		p.whatIfs(r)
	} else if r.Priced() {
		p.price(r)
	}
	p.causes(r.Causes)
	p.list("Missing", r.Missing)
	p.list("Not seen", r.NotLookedAt)
	p.list("Scaling", r.Scaling)
	p.list("Note", r.Notes)
	p.list("Next", r.Next)
	_, err := w.Write(p.Bytes())
	return err
}

// first is the first n of some items.
func first(items []string, n int) []string { return items[:min(n, len(items))] }

// firstScreen is what somebody who was woken up needs.
func (p *page) firstScreen(r diagnosis.Report) {
	steps := "no step"
	if r.Steps > 0 {
		steps = fmt.Sprintf("steps %d-%d", r.From, r.To)
	}
	p.line("%s  %s: %s", r.Run, steps, verdictText(r))
	p.wrapped("", r.Summary)
	for _, f := range r.Findings[min(1, len(r.Findings)):] {
		p.wrapped("", f.Text)
	}
	p.deed(r)
	p.since(r)
	p.fleet(r.Fleet)
	p.evidence(r)
}

// deed is what to do, and what a step then takes.
func (p *page) deed(r diagnosis.Report) {
	if len(r.Next) > 0 {
		p.list("DO", r.Next[:1])
	}
	lead := strings.Repeat(" ", titleWidth)
	if len(r.Findings) > 0 && r.Findings[0].Fix != nil {
		fix, or := r.Findings[0].Fix, ""
		if len(r.Next) > 0 && !strings.HasSuffix(r.Next[0], fix.Command) {
			or = "or: "
		}
		p.wrapped(lead, or+fix.Text)
	}
	if len(r.Next) == 0 {
		return
	}
	if probe := r.Regime.Probe; probe != nil && strings.HasSuffix(r.Next[0], probe.Command) {
		p.wrapped(lead, probe.Text)
	}
	for _, w := range r.WhatIfs {
		if w.Command != "" && strings.HasSuffix(r.Next[0], w.Command) || strings.HasSuffix(r.Next[0], ": "+w.Change) {
			p.wrapped(lead, fmt.Sprintf("%s: a step takes %s now and %s then (%s to %s, modelled)", w.Change,
				units.Seconds(r.Regime.StepSec), units.Seconds(w.StepSec), units.Seconds(w.LowSec), units.Seconds(w.HighSec)))
			return
		}
	}
}

// since is when it began, and what a step took before.
func (p *page) since(r diagnosis.Report) {
	if len(r.Findings) == 0 || r.Findings[0].Since == nil {
		return
	}
	text := fmt.Sprintf("step %d", *r.Findings[0].Since)
	if rise := r.Rise; rise != nil && r.Findings[0].Verdict == diagnosis.VerdictProblem {
		text += fmt.Sprintf("; a step took %s before step %d, and takes %s", units.Seconds(r.Regime.StepSec-rise.DeltaSec),
			rise.At, units.Seconds(r.Regime.StepSec))
	}
	p.list("SINCE", []string{text})
}

// fleet is what happened to engines of late.
func (p *page) fleet(events []diagnosis.FleetEvent) {
	var lines []string
	for _, ev := range events[max(0, len(events)-fleetLines):] {
		lines = append(lines, fmt.Sprintf("%s (step %d)", ev.Text, ev.Step))
	}
	if n := len(events) - len(lines); n > 0 {
		lines = append([]string{fmt.Sprintf("%d events before these: millrace events", n)}, lines...)
	}
	p.list("FLEET", lines)
}

// evidence is what speaks for the findings.
func (p *page) evidence(r diagnosis.Report) {
	var items []string
	for i, f := range r.Findings {
		for _, e := range f.Evidence {
			if i == 0 || f.Cause == diagnosis.CauseStaleDrops || f.Cause == diagnosis.CauseNoRewardVariance {
				items = append(items, fmt.Sprintf("%s (%s)", e.Text, e.Basis))
			}
		}
	}
	if n := len(r.Levels); n > 0 && r.Verdict == diagnosis.VerdictProblem && r.Levels[n-1].Waits() {
		items = append(items, waitPartsText(r.Levels[n-1]))
	}
	block := &page{}
	for _, item := range items {
		before := block.Len()
		block.wrapped("  - ", item)
		if strings.Count(block.String(), "\n") > evidenceLines {
			block.Truncate(before)
			break
		}
	}
	if block.Len() > 0 {
		p.line("EVIDENCE (all of it: --verbose)")
		p.WriteString(block.String())
	}
}

// price is what steps cost, now and with each of the changes.
func (p *page) price(r diagnosis.Report) {
	if len(r.WhatIfs) > 0 {
		p.whatIfs(r)
		return
	}
	p.line("A step costs $%s, 1,000 steps $%s (engines only, at their present number).", units.Number(r.StepCost),
		units.Number(1000*r.StepCost))
}

// verdictText is how grave it is or the verdict, with the first cause and its share, and the useful share of the time.
func verdictText(r diagnosis.Report) string {
	text := string(r.Verdict)
	if r.Verdict == diagnosis.VerdictProblem {
		text = string(r.Severity)
	}
	text = strings.ToUpper(strings.ReplaceAll(text, "_", " "))
	switch {
	case r.Verdict == diagnosis.VerdictProblem:
		text += ", " + r.Brief
	case len(r.Findings) > 0:
		text += ", " + r.Findings[0].Cause.Words()
	}
	if r.Ledger != nil && r.Ledger.WallSec > 0 && r.Verdict != diagnosis.VerdictNoAnswer {
		text += fmt.Sprintf(" (goodput %s)", units.Percent(r.Goodput))
	}
	return text
}

// Headline is a report in one line.
func Headline(r diagnosis.Report) string { return verdictText(r) + ": " + r.Summary }

// levels writes a column per level, a row per phase, and the rise to the present level, or the last shift, with its
// shares.
func (p *page) levels(r diagnosis.Report) {
	if len(r.Levels) == 0 {
		return
	}
	levels := r.Levels[max(0, len(r.Levels)-levelsShown):]
	columns := []table.Column{table.Left("mean of steps (measured)")}
	for _, l := range levels {
		columns = append(columns, table.Right(fmt.Sprintf("%d-%d", l.From, l.To)))
	}
	step := levelRow("step", levels, func(l diagnosis.Level) string { return units.Seconds(l.StepSec) })
	shift := shownShift(r)
	if shift != nil {
		columns = append(columns, table.Right("change"), table.Right("share"))
		step = append(step, units.SignedSeconds(shift.DeltaSec), "100 %")
	}
	t := table.New(columns...)
	t.Row(step...)
	for i, phase := range steprecord.Phases() {
		if !takesTime(levels, phase) {
			continue
		}
		row := levelRow("  "+string(phase), levels, func(l diagnosis.Level) string {
			return units.Seconds(l.PhaseSec[phase])
		})
		if shift != nil {
			row = append(row, units.SignedSeconds(shift.Phases[i].DeltaSec), shownShare(shift.Phases[i].Share))
		}
		t.Row(row...)
	}
	t.Row(levelRow("batches ready at claim", levels, func(l diagnosis.Level) string {
		return fmt.Sprintf("%.1f", l.ReadyDepth)
	})...)
	t.Row(levelRow("engine slots in use", levels, func(l diagnosis.Level) string {
		return units.Percent(l.SlotShare)
	})...)
	p.line("")
	p.table(t)
}

// shownShift is the rise to the present level, or else the last shift; nil: there is none.
func shownShift(r diagnosis.Report) *diagnosis.Shift {
	if n := len(r.Shifts); r.Rise == nil && n > 0 {
		return &r.Shifts[n-1]
	}
	return r.Rise
}

func levelRow(name string, levels []diagnosis.Level, cell func(diagnosis.Level) string) []string {
	row := []string{name}
	for _, l := range levels {
		row = append(row, cell(l))
	}
	return row
}

// takesTime reports whether a phase takes any time in a level. Waiting is always worth a row.
func takesTime(levels []diagnosis.Level, phase steprecord.Phase) bool {
	return phase == steprecord.PhaseWait ||
		slices.ContainsFunc(levels, func(l diagnosis.Level) bool { return l.PhaseSec[phase] > 0.005 })
}

// waitPartsText is where the last group was while the trainer waited for it.
func waitPartsText(l diagnosis.Level) string {
	var parts []string
	for _, part := range l.Wait {
		if part.Sec >= 0.01*l.PhaseSec[steprecord.PhaseWait] {
			parts = append(parts, units.Seconds(part.Sec)+" "+diagnosis.PlaceText(part.Place))
		}
	}
	return "in the wait, the group that completed the batch was (measured): " + strings.Join(parts, ", ")
}

func (p *page) prefill(prefill *diagnosis.Prefill) {
	if prefill != nil && prefill.WaitSec > 0 {
		ready := units.Number(prefill.ReadyDepth) + " batches were"
		if ready == "1 batches were" {
			ready = "1 batch was"
		}
		p.wrapped("", fmt.Sprintf("Before step 0 the trainer waited %s, until %s ready (measured), in no step's time.",
			units.Seconds(prefill.WaitSec), ready))
	}
}

func (p *page) regime(reg diagnosis.Regime) {
	if reg.StepSec == 0 {
		return
	}
	t := table.New(table.Left(""), table.Right(""), table.Left(""), table.Left(""))
	t.Row(fmt.Sprintf("step now, %d-%d", reg.From, reg.To), units.Seconds(reg.StepSec), string(diagnosis.Measured),
		string(reg.Kind))
	t.Row("  trainer's compute", units.Seconds(reg.ComputeSec), string(diagnosis.Measured), "step less wait")
	if reg.LatencySec > 0 {
		t.Row("  latency of a batch", units.Seconds(reg.LatencySec), string(diagnosis.Measured), "its slowest group")
	}
	p.line("")
	p.folded(t)
	for _, e := range reg.Evidence {
		p.wrapped("  - ", e.Text)
	}
	if reg.Probe != nil {
		p.wrapped("To decide: ", reg.Probe.Text+".")
	}
}

func (p *page) whatIfs(r diagnosis.Report) {
	if len(r.WhatIfs) == 0 {
		return
	}
	columns := []table.Column{table.Left(""), table.Right(""), table.Right("")}
	heads := []string{"what if (modelled)", "step", "nine of ten"}
	if r.Priced() {
		columns, heads = append(columns, table.Right("")), append(heads, "$ per 1,000 steps")
	}
	t := table.New(append(columns, table.Left(""))...) // headings as a row: the last column takes several lines
	t.Row(heads...)
	if r.Priced() {
		t.Row("  now (measured)", units.Seconds(r.Regime.StepSec), "", units.Number(1000*r.StepCost))
	}
	for _, w := range r.WhatIfs {
		cells := []string{"  " + w.Change, units.Seconds(w.StepSec), units.Number(w.LowSec) + " - " +
			units.Seconds(w.HighSec)}
		if r.Priced() {
			cells = append(cells, units.Number(1000*w.StepCost))
		}
		t.Row(append(cells, outcomeText(w, r.Replay))...)
	}
	p.line("")
	p.folded(t)
	p.wrapped("  ", fmt.Sprintf("The replay of what happened meets the record within %.1f %%.", 100*r.Replay.MedianError))
}

func outcomeText(w diagnosis.WhatIf, replay *diagnosis.Fit) string {
	text := string(w.Outcome)
	switch {
	case w.Onset == nil:
		text += ", no waiting left"
	case replay.Onset != nil && *w.Onset > *replay.Onset && w.Outcome == diagnosis.HelpsNot:
		text += fmt.Sprintf(", only moves the jump to step %d", *w.Onset)
	}
	if w.Note != "" {
		text += " (" + w.Note + ")"
	}
	return text
}

// shownShare is a share as it is written: where others make up for a part of it, a change may be larger than the sum.
func shownShare(share float64) string { return units.Percent(max(-1, min(share, 1))) }

// shareText is how much goes with a cause, and of what.
func shareText(s *diagnosis.Share) string {
	if s == nil {
		return ""
	}
	return shownShare(s.Of) + " of " + s.What
}

// delayText is how sure the share is, and how long the cause was hidden.
func delayText(c diagnosis.Cause) string {
	text := ""
	if s := c.Share; s != nil && s.High-s.Low > 0.005 {
		text += fmt.Sprintf("; %s - %s of it", units.Number(100*min(s.Low, 1)), shownShare(s.High))
	}
	if c.Began != nil && c.Felt != nil && *c.Felt > *c.Began && !strings.Contains(c.Text, "felt") {
		text += fmt.Sprintf("; began in step %d, felt from step %d", *c.Began, *c.Felt)
	}
	return text
}

func fixText(c diagnosis.Cause) string {
	if c.Fix == nil || c.Decision != diagnosis.IsCause {
		return ""
	}
	return "; fix: " + c.Fix.Text
}

// causes lists what speaks for something.
func (p *page) causes(causes []diagnosis.Cause) {
	if len(causes) > 0 {
		p.line("\nCauses")
	}
	for _, c := range causes {
		p.wrapped(fmt.Sprintf("  %-18s  %-11s %-13s ", c.Name, c.Decision, shareText(c.Share)),
			c.Text+delayText(c)+fixText(c))
	}
}
