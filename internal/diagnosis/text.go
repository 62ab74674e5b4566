package diagnosis

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

// levelsShown bounds the columns of the table of levels; the last ones say how the run is now.
const levelsShown = 4

// WriteText writes the report for a person, on about one screen. Every table says whether its
// numbers are measured or modelled.
func (r Report) WriteText(w io.Writer) error {
	t := &page{}
	t.line("%s  steps %d-%d: %s", r.Run, r.From, r.To, strings.ToUpper(strings.ReplaceAll(string(r.Verdict), "_", " ")))
	t.wrapped("", r.Summary)
	for i, f := range r.Findings {
		if i > 0 {
			t.wrapped("", f.Text)
		}
		if f.Cause == CauseNoSignal || f.Cause == CauseStaleDrops { // those of the others stand in the tables below
			for _, e := range f.Evidence {
				t.wrapped("  - ", fmt.Sprintf("%s (%s)", e.Text, e.Basis))
			}
		}
	}
	t.levels(r)
	if r.Verdict != VerdictHealthy {
		t.singles(r)
	}
	if r.Verdict == VerdictProblem || r.Verdict == VerdictWarning {
		t.regime(r)
		t.whatIfs(r)
		t.causes(r)
	}
	t.list("Missing", r.Missing)
	t.list("Note", r.Notes)
	t.list("Next", r.Next)
	_, err := w.Write(t.Bytes())
	return err
}

// levels is a column per level, a row per phase, and the rise to the present level, or the last shift, with its shares.
func (t *page) levels(r Report) {
	if len(r.Levels) == 0 {
		return
	}
	levels := r.Levels[max(0, len(r.Levels)-levelsShown):]
	t.line("")
	head := []string{"mean per step (measured)"}
	for _, l := range levels {
		head = append(head, fmt.Sprintf("%d-%d", l.From, l.To))
	}
	shift := r.Rise
	if n := len(r.Shifts); shift == nil && n > 0 {
		shift = &r.Shifts[n-1]
	}
	if shift != nil {
		head = append(head, "change", "share")
	}
	rows := [][]string{head, row("step", levels, func(l Level) string { return units.Seconds(l.StepSec) })}
	if shift != nil {
		rows[1] = append(rows[1], units.SignedSeconds(shift.DeltaSec), "100 %")
	}
	for i, phase := range rollout.Phases() {
		if !shown(levels, phase) {
			continue
		}
		line := row("  "+string(phase), levels, func(l Level) string { return units.Seconds(l.PhaseSec[phase]) })
		if shift != nil {
			line = append(line, units.SignedSeconds(shift.Phases[i].DeltaSec), units.Percent(shift.Phases[i].Share))
		}
		rows = append(rows, line)
	}
	rows = append(rows,
		row("batches ready at claim", levels, func(l Level) string { return fmt.Sprintf("%.1f", l.ReadyDepth) }),
		row("engine slots in use", levels, func(l Level) string { return units.Percent(l.SlotShare) }))
	t.table(rows)
	t.waits(levels[len(levels)-1])
}

func row(name string, levels []Level, cell func(Level) string) []string {
	out := []string{name}
	for _, l := range levels {
		out = append(out, cell(l))
	}
	return out
}

// shown leaves out phases that take no time in any level.
func shown(levels []Level, phase rollout.Phase) bool {
	return phase == rollout.PhaseWait || slices.ContainsFunc(levels, func(l Level) bool { return l.PhaseSec[phase] > 0.005 })
}

func (t *page) waits(l Level) {
	if l.PhaseSec[rollout.PhaseWait] < minWaitShare*l.StepSec {
		return
	}
	var parts []string
	for _, p := range l.Wait {
		if p.Sec >= 0.01*l.PhaseSec[rollout.PhaseWait] {
			parts = append(parts, units.Seconds(p.Sec)+" "+placeText(p.Place))
		}
	}
	t.wrapped("", "In the wait, the group that completed the batch was (measured): "+strings.Join(parts, ", ")+".")
}

func placeText(p Place) string {
	switch p {
	case PlaceLaunch:
		return "not launched"
	case PlaceStart:
		return "launched, waiting for a place"
	case PlaceQueue:
		return "queued between turns"
	case PlaceModel:
		return "at engines"
	case PlaceEnv:
		return "in the game"
	case PlaceHandover:
		return "on its way to the trainer"
	case PlaceOther:
		return "between turns"
	}
	return "not recorded"
}

// singles is what belongs to no level.
func (t *page) singles(r Report) {
	if r.Prefill != nil && r.Prefill.WaitSec > 0 {
		t.line("Before step 0 the trainer waited %s, until %.1f batches were ready (measured).", units.Seconds(r.Prefill.WaitSec), r.Prefill.ReadyDepth)
	}
	if n := len(r.Shifts); n > 0 {
		s := r.Shifts[n-1]
		if !s.Confirmed {
			t.line("The shift at step %d is provisional until three steps show it.", s.At)
		}
		for _, e := range s.Events {
			t.line("At the shift: %s", e.Text)
		}
	}
	for _, f := range r.Findings {
		if f.Verdict == VerdictHealed {
			for _, e := range f.Evidence {
				t.wrapped("  - ", e.Text)
			}
		}
	}
	const most = 3
	for _, s := range r.SlowSteps[max(0, len(r.SlowSteps)-most):] {
		text := fmt.Sprintf("Step %d alone took %s instead of %s, %s of it %s", s.Step, units.Seconds(s.Sec), units.Seconds(s.LevelSec), units.SignedSeconds(s.FirstSec), phaseName(s.First))
		if s.Last {
			text += "; one more like it would be a level"
		}
		t.wrapped("", text+".")
	}
}

func (t *page) regime(r Report) {
	reg := r.Regime
	if reg.StepSec == 0 {
		return
	}
	t.line("")
	rows := [][]string{{"step now", units.Seconds(reg.StepSec), string(Measured), string(reg.Kind)}}
	longRun := 0.0
	add := func(name string, q *Quantity, term bool) {
		if q == nil {
			return
		}
		if term {
			longRun = max(longRun, q.Sec)
		}
		rows = append(rows, []string{"  " + name, units.Seconds(q.Sec), string(q.Basis), q.How})
	}
	add("C  trainer's compute", &reg.C, true)
	add("P  fleet's time per batch", reg.P, true)
	add("R  latency of a batch", reg.R, false)
	add("R/D", reg.LatencyPD, true)
	if reg.P != nil && reg.R != nil {
		add("max(C, P, R/D)", &Quantity{longRun, Modelled, "a step in the long run"}, false)
	}
	t.columns(rows, func(column int) bool { return column == 1 })
	for _, e := range reg.Evidence {
		t.wrapped("  - ", e.Text)
	}
}

func (t *page) whatIfs(r Report) {
	if len(r.WhatIfs) == 0 {
		return
	}
	t.line("")
	rows := [][]string{{"what if (modelled)", "step", "90 % of replays", "", ""}}
	for _, w := range r.WhatIfs {
		text := string(w.Outcome)
		switch {
		case w.Onset == nil:
			text += ", no waiting left"
		case r.Replay.Onset != nil && *w.Onset > *r.Replay.Onset && w.Outcome == HelpsNot:
			text += fmt.Sprintf(", only moves the jump to step %d", *w.Onset)
		}
		if w.Note != "" {
			text += " (" + w.Note + ")"
		}
		rows = append(rows, []string{"  " + w.Change, units.Seconds(w.StepSec), units.Number(w.LowSec) + " - " + units.Seconds(w.HighSec), text})
	}
	t.columns(rows, func(column int) bool { return column == 1 || column == 2 })
	t.line("  The replay of what happened meets the record within %.1f %%.", 100*r.Replay.MedianError)
}

// causes lists what speaks for something first, then in one line what is excluded.
func (t *page) causes(r Report) {
	var excluded []string
	title := "\nCauses"
	for _, c := range r.Causes {
		if c.Decision == Excluded {
			excluded = append(excluded, string(c.Name))
			continue
		}
		if title != "" {
			t.line("%s", title)
			title = ""
		}
		t.wrapped(fmt.Sprintf("  %-14s  %-13s", c.Name, c.Decision), c.Text)
	}
	if len(excluded) > 0 {
		t.wrapped("  excluded: ", strings.Join(excluded, ", "))
	}
}
