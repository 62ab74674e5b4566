// Package reporttext writes a diagnosis report for a person, on about one screen. Every table says whether its numbers
// are measured or modelled. What a report says is decided in package diagnosis.
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

// levelsShown bounds the columns of the table of levels; the last ones say how the run is now.
const levelsShown = 4

// Write writes the report.
func Write(w io.Writer, r diagnosis.Report) error {
	p := &page{}
	steps := "no step"
	if r.Steps > 0 {
		steps = fmt.Sprintf("steps %d-%d", r.From, r.To)
	}
	p.line("%s  %s: %s", r.Run, steps, verdictText(r))
	p.wrapped("", r.Summary)
	p.findings(r.Findings)
	p.levels(r)
	p.drift(r.Drift)
	p.ledger(r.Ledger)
	p.older(r)
	if r.Verdict != diagnosis.VerdictHealthy {
		p.prefill(r.Prefill)
		p.lastShift(r.Shifts)
		p.healedEvidence(r.Findings)
	}
	if r.Verdict == diagnosis.VerdictProblem || r.Verdict == diagnosis.VerdictWarning {
		p.regime(r.Regime)
		p.whatIfs(r)
		p.causes(r.Causes)
	} else if r.Priced() {
		p.line("A step costs $%s, 1,000 steps $%s (engines only, at their present number).", units.Number(r.StepCost),
			units.Number(1000*r.StepCost))
	}
	p.list("Missing", r.Missing)
	p.list("Not seen", r.NotLookedAt)
	p.list("Scaling", r.Scaling)
	p.list("Note", r.Notes)
	p.list("Next", r.Next)
	if r.Verdict == diagnosis.VerdictProblem || r.Verdict == diagnosis.VerdictWarning {
		p.queries(r.APL)
	}
	_, err := w.Write(p.Bytes())
	return err
}

// verdictText is the verdict with the first cause, and the useful share of the time.
func verdictText(r diagnosis.Report) string {
	text := strings.ToUpper(strings.ReplaceAll(string(r.Verdict), "_", " "))
	if len(r.Findings) > 0 {
		text += ", " + strings.ReplaceAll(string(r.Findings[0].Cause), "_", " ")
	}
	if r.Ledger != nil && r.Ledger.WallSec > 0 && r.Verdict != diagnosis.VerdictNoAnswer {
		text += fmt.Sprintf(" (goodput %s)", units.Percent(r.Goodput))
	}
	return text
}

// Headline is a report in one line.
func Headline(r diagnosis.Report) string { return verdictText(r) + ": " + r.Summary }

// drift writes a steady growth.
func (p *page) drift(d *diagnosis.Drift) {
	if d == nil {
		return
	}
	what := "a step"
	if d.Of == diagnosis.DriftOfCompute {
		what = "the trainer's own part of a step"
	}
	p.wrapped("", fmt.Sprintf(
		"Drift (measured): from step %d to %d %s went from %s to %s, %s with every step (%s to %s), "+
			"most of it %s.", d.From, d.To, what, units.Seconds(d.FromSec), units.Seconds(d.ToSec), perStep(d.PerStep),
		perStep(d.LowPer), perStep(d.HighPer), diagnosis.PhaseText(d.First)))
}

func perStep(share float64) string { return fmt.Sprintf("%+.2f %%", 100*share) }

// queriesShown bounds the queries that are written; the document has all of them.
const queriesShown = 1

// queryLead stands before each line of a query.
const queryLead = "           "

// broken breaks a query's line at commas into lines of at most so many characters: the language allows line breaks
// there.
func broken(line string, most int) []string {
	const lead = "    "
	var out []string
	for len(line) > most {
		at := strings.LastIndex(line[:most], ", ")
		if at <= len(lead) {
			break
		}
		out, line = append(out, line[:at+1]), lead+line[at+2:]
	}
	return append(out, line)
}

// queries writes the Axiom queries for the evidence, each line of a query on its own.
func (p *page) queries(queries []diagnosis.Query) {
	for i, q := range queries {
		if i == queriesShown {
			p.line("         %d more queries: -o json", len(queries)-i)
			return
		}
		p.line("APL      %s:", q.Shows)
		for line := range strings.Lines(q.APL) {
			for _, part := range broken(strings.TrimRight(line, "\n"), width-len(queryLead)) {
				p.line("%s%s", queryLead, part)
			}
		}
	}
}

// findings writes the findings after the first, which the summary states.
func (p *page) findings(findings []diagnosis.Finding) {
	for i, f := range findings {
		if i > 0 {
			p.wrapped("", f.Text)
		}
		// The evidence of the other causes stands in the tables below.
		if f.Cause == diagnosis.CauseNoRewardVariance || f.Cause == diagnosis.CauseStaleDrops {
			for _, e := range f.Evidence {
				p.wrapped("  - ", fmt.Sprintf("%s (%s)", e.Text, e.Basis))
			}
		}
	}
}

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
	p.waitParts(levels[len(levels)-1])
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

func (p *page) waitParts(l diagnosis.Level) {
	if !l.Waits() {
		return
	}
	var parts []string
	for _, part := range l.Wait {
		if part.Sec >= 0.01*l.PhaseSec[steprecord.PhaseWait] {
			parts = append(parts, units.Seconds(part.Sec)+" "+diagnosis.PlaceText(part.Place))
		}
	}
	p.wrapped("", "In the wait, the group that completed the batch was (measured): "+strings.Join(parts, ", ")+".")
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

func (p *page) lastShift(shifts []diagnosis.Shift) {
	if len(shifts) == 0 {
		return
	}
	last := shifts[len(shifts)-1]
	if !last.Confirmed {
		p.line("The shift at step %d is provisional until three steps show it.", last.At)
	}
	for _, e := range last.Events {
		p.line("At the shift: %s", e.Text)
	}
}

func (p *page) healedEvidence(findings []diagnosis.Finding) {
	for _, f := range findings {
		if f.Verdict == diagnosis.VerdictHealed {
			for _, e := range f.Evidence {
				p.wrapped("  - ", e.Text)
			}
		}
	}
}

func (p *page) regime(reg diagnosis.Regime) {
	if reg.StepSec == 0 {
		return
	}
	t := table.New(table.Left(""), table.Right(""), table.Left(""), table.Left(""))
	t.Row(fmt.Sprintf("step now, %d-%d", reg.From, reg.To), units.Seconds(reg.StepSec), string(diagnosis.Measured),
		string(reg.Kind))
	add := func(name string, q *diagnosis.Quantity) {
		if q != nil {
			t.Row("  "+name, units.Seconds(q.Sec), string(q.Basis), q.How)
		}
	}
	add("C  trainer's compute", &reg.C)
	add("P  fleet's time per batch", reg.P)
	add("R  latency of a batch", reg.R)
	add("R/D", reg.LatencyPD)
	if name, sec := longRun(reg); sec > 0 {
		add(name, &diagnosis.Quantity{Sec: sec, Basis: diagnosis.Modelled, How: "a step in the long run"})
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

// longRun is the terms of a step in the long run, and their result. Saturated engines stretch the latency; the part
// that they do not stretch is added to their time for a batch.
func longRun(reg diagnosis.Regime) (terms string, sec float64) {
	switch {
	case reg.P == nil || reg.LatencyPD == nil:
		return "", 0
	case reg.Resource == diagnosis.EngineSpeed && reg.Saturated != nil:
		return reg.Saturated.How, max(reg.C.Sec, reg.Saturated.Sec)
	}
	return "max(C, P, R/D)", max(reg.C.Sec, reg.P.Sec, reg.LatencyPD.Sec)
}

func (p *page) whatIfs(r diagnosis.Report) {
	if len(r.WhatIfs) == 0 {
		return
	}
	columns := []table.Column{table.Left(""), table.Right(""), table.Right("")}
	heads := []string{"what if (modelled)", "step", "90 % of replays"}
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
