package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/units"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// runSummary is a run in a few lines: state, buffer by state, engines, what is wrong.
func (m *Model) runSummary() []Line {
	r := m.run
	if r == nil {
		return []Line{{"run " + string(m.of) + ": not read yet", Dim}}
	}
	lines := []Line{
		{fmt.Sprintf("%s  %s, step %d of %d, policy v%d, for %s", r.Name(), r.State, r.NextStep, r.Spec.Steps,
			r.PolicyVersion,
			tablerow.Span(m.now.Sub(r.StartedAt))), Plain},
		{m.bufferBar(r), Plain},
	}
	if f := r.Fleet; f != nil {
		lines = append(lines, Line{fmt.Sprintf("fleet    %.1f ready, %.0f %% of slots, %.0f queued, in %.0f, out %.0f tok/s",
			f.Engines, 100*f.SlotShare, f.QueuedRequests, f.InputTPS, f.OutputTPS), Plain})
	}
	lines = append(lines, m.waitLines(r)...)
	if r.Attempts.Failed > 0 {
		text := fmt.Sprintf("games    %d finished, %d attempts failed", r.Attempts.Finished, r.Attempts.Failed)
		if worst, failing := r.Attempts.Worst(); failing {
			text += fmt.Sprintf(", the last %d in a row with %s", worst.InRow, worst.Code)
		}
		lines = append(lines, Line{text, Warn})
	}
	if text := dropped(r); text != "" {
		lines = append(lines, Line{"dropped  " + text, Warn})
	}
	for _, a := range r.Alarms {
		lines = append(lines, Line{"STUCK    " + a.Text, Bad}, Line{"to do    " + a.Advice, Bad})
	}
	if row := tablerow.RowOfRun(r); row.Wrong != "" && len(r.Alarms) == 0 {
		lines = append(lines, Line{"note     " + row.Wrong, styleOf(row.Grade)})
	}
	return lines
}

// waitLines lists what the run waits for, except played or queued groups and alarms, which other lines show.
func (m *Model) waitLines(r *tablerow.Run) (lines []Line) {
	for i := range r.Waits {
		w := &r.Waits[i]
		since := ""
		if !w.Since.IsZero() {
			since = " " + tablerow.Span(m.now.Sub(w.Since))
		}
		switch {
		case w.What == "batch":
			lines = append(lines, Line{fmt.Sprintf("trainer  waits%s for a batch: %s", since, w.Detail), Warn})
		case w.What == "games", w.What == "dispatch", isAlarm(r, w):
		case w.What == "record": // the trainer trains
			lines = append(lines, Line{fmt.Sprintf("trainer  has %s; awaited is %s", w.Owner, w.Detail), Plain})
		default:
			lines = append(lines, Line{fmt.Sprintf("waits    %s%s: %s", w.Owner, since, w.Detail), Warn})
		}
	}
	return lines
}

// isAlarm reports whether a wait is one of the run's alarms in other words.
func isAlarm(r *tablerow.Run, w *api.Wait) bool {
	return slices.ContainsFunc(r.Alarms, func(a runstatus.Alarm) bool { return strings.HasPrefix(w.Detail, a.Text) })
}

// dropped is how many groups left without being trained on, by why.
func dropped(r *tablerow.Run) string {
	var parts []string
	for _, left := range r.Departures {
		if left.Code != steprecord.Trained && left.Groups > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", left.Groups, left.Code))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "groups that were not trained on: " + strings.Join(parts, ", ")
}

// bufferBar is the groups outstanding by state, drawn against the target.
func (m *Model) bufferBar(r *tablerow.Run) string {
	b := r.Buffer
	target := max(int64(r.Spec.Buffer.Depth*r.Spec.Buffer.GroupsPerStep), b.Queued+b.InFlight+b.Ready, 1)
	const width = 16
	var bar strings.Builder
	drawn, sum := 0, int64(0)
	for _, part := range []struct {
		n      int64
		letter string
	}{{b.Ready, "#"}, {b.InFlight, "+"}, {b.Queued, "."}} {
		sum += part.n
		end := int(float64(sum)/float64(target)*width + 0.5)
		bar.WriteString(strings.Repeat(part.letter, max(0, end-drawn)))
		drawn = max(drawn, end)
	}
	bar.WriteString(strings.Repeat(" ", max(0, width-drawn)))
	return fmt.Sprintf("buffer   [%s] %d ready #, %d in flight +, %d queued .; of %d", bar.String(), b.Ready,
		b.InFlight, b.Queued, int64(r.Spec.Buffer.Depth*r.Spec.Buffer.GroupsPerStep))
}

// stepText is the whole record of a step.
func (m *Model) stepText() []string {
	at := slices.IndexFunc(m.steps, func(r steprecord.StepRecord) bool { return r.Step == m.step })
	if at < 0 {
		return []string{fmt.Sprintf("step %d is not among those that were read", m.step)}
	}
	r := m.steps[at]
	v := r.Service
	text := []string{fmt.Sprintf("step     %d, %d groups, %d trajectories, policy v%d", r.Step, len(v.Groups),
		v.Trajectories,
		v.Version)}
	if !r.Done {
		text = append(text, "         under way: the trainer has not reported it")
	} else {
		text = append(text, fmt.Sprintf("seconds  %.1f", r.StepSec()))
		phases := r.StepPhases()
		for _, p := range steprecord.Phases() {
			if phases[p] > 0 {
				text = append(text, fmt.Sprintf("  %-13s %8.1f s  %3.0f %%  %s", p, phases[p], 100*units.Share(phases[p],
					r.StepSec()),
					strings.Repeat(phaseLetters[p], int(units.Share(phases[p], r.StepSec())*30+0.5))))
			}
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(v.StarvedBy)) {
		text = append(text, fmt.Sprintf("waited   %.1f s while the missing groups were at: %s", v.StarvedBy[cause], cause))
	}
	text = append(text,
		fmt.Sprintf("buffer   %.1f batches ready at the claim, %d groups in flight, %d queued", v.ReadyDepth,
			v.AtClaim.InFlight,
			v.AtClaim.Queued),
		fmt.Sprintf("stale    %d at most, %.1f in the mean", v.StalenessMax, v.StalenessMean),
		fmt.Sprintf("fleet    %.1f ready, %.0f %% of slots in use, in %.0f tok/s, out %.0f tok/s", v.Fleet.Engines,
			100*v.Fleet.SlotShare, v.Fleet.InputTPS, v.Fleet.OutputTPS), "")
	groups := slices.Clone(v.Groups)
	slices.SortFunc(groups, func(a, b steprecord.GroupView) int { return b.Times.ReadyAt.Compare(a.Times.ReadyAt) })
	for _, g := range groups {
		longest := 0.0
		for _, sec := range g.EpisodeSec {
			longest = max(longest, sec)
		}
		text = append(text, fmt.Sprintf("group    %d: v%d, %.1f s from launch to ready, longest game %.1f s", g.Seq,
			g.MinVersion,
			max(0, g.Times.ReadyAt.Sub(g.Times.LaunchedAt).Seconds()), longest))
	}
	return text
}
