package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// writeScaling writes how the fleet is scaled.
func (s *session) writeScaling(v *supply.View) error {
	for _, line := range fleetLines(v, s.now()) {
		fmt.Fprintln(s.Stdout, termtext.Line(line))
	}
	for _, part := range []struct {
		title string
		rows  int
		table *table.Table
	}{
		{"runs", len(v.Sample.Runs), needsTable(v)},
		{"engines that were bought", len(v.Engines), boughtTable(v, s.now())},
		{"decisions", len(v.Decisions), decisionsTable(v, s.now())},
	} {
		if part.rows == 0 {
			continue
		}
		fmt.Fprintf(s.Stdout, "\n%s\n", part.title)
		if err := s.write(part.table); err != nil {
			return err
		}
	}
	return nil
}

// fleetLines is the fleet in a few lines.
func fleetLines(v *supply.View, now time.Time) []string {
	n := v.Actual
	lines := []string{fmt.Sprintf("wanted   %s (%d to %d): %s", units.Counted(v.Wanted, "engine"), v.Settings.Min,
		v.Settings.Max, v.Why)}
	actual := fmt.Sprintf("actual   %d ready, %d starting, %d draining", n.Ready, n.Starting, n.Draining)
	if v.Provider == "advise" {
		actual += "; somebody else starts and stops them (provider advise)"
	} else {
		actual += "; bought from " + v.Provider
	}
	lines = append(lines, actual)
	switch {
	case v.Next.IsZero():
	case v.Next.After(now):
		lines = append(lines, fmt.Sprintf("next     change possible in %s", tablerow.Span(v.Next.Sub(now))))
	default:
		lines = append(lines, "next     change possible at any time")
	}
	policy := fmt.Sprintf("policy   %s", v.Settings.Policy)
	if len(v.Set) > 0 {
		policy += fmt.Sprintf("; set while it ran: %s (millrace engine scaling --reset)", strings.Join(v.Set, ", "))
	}
	lines = append(lines, policy)
	lines = append(lines, costLine(v))
	if cold := v.Sample.ColdStartSec; cold > 0 {
		lines = append(lines, fmt.Sprintf("cold     %s from an engine's start to its first request, as seen",
			units.Seconds(cold)))
	}
	if v.Trouble != "" {
		lines = append(lines, fmt.Sprintf("trouble  for %s: %s", tablerow.Span(now.Sub(v.TroubleSince)), v.Trouble))
	}
	if age := v.Overdue(now); age > 0 {
		lines = append(lines, fmt.Sprintf("stale    the newest sample is %s old: is a worker with scaling in its "+
			"configuration alive? millrace worker list", tablerow.Span(age)))
	}
	return lines
}

// costLine is what the fleet has cost and costs, where that is known, and how many engines were asked for.
func costLine(v *supply.View) string {
	asked := "; engines asked for: " + count(int64(v.Started))
	if v.Settings.Price <= 0 && v.Cost <= 0 {
		return "cost     not known: set price, in $ per engine and hour" + asked
	}
	text := fmt.Sprintf("cost     $%.2f so far", v.Cost)
	if v.Settings.Price > 0 {
		text += fmt.Sprintf(", $%.2f an hour now", v.HourlyCost())
	}
	if v.Settings.Budget > 0 {
		text += fmt.Sprintf(" of a budget of $%.2f", v.Settings.Budget)
	}
	return text + asked
}

// needsTable lists the engines that each run needs.
func needsTable(v *supply.View) *table.Table {
	t := table.New(table.Left("RUN"), table.Right("COMPUTE C s"), table.Right("CAPACITY P s"), table.Right("WITH ENGINES"),
		table.Right("LATENCY R/D s"), table.Right("STEPS DONE"), table.Right("BATCHES READY"), table.Left("TRAINER"),
		table.Right("PRIORITY"), table.Right("MAX ENGINES"))
	for i := range v.Sample.Runs {
		r := &v.Sample.Runs[i]
		most := "-"
		if r.MaxEngines > 0 {
			most = count(int64(r.MaxEngines))
		}
		t.Row(string(r.Name), known(r.C), known(r.P), units.Number(r.Engines), known(r.RD), count(int64(r.Steps)),
			fmt.Sprintf("%.1f", r.ReadyDepth), r.TrainerState(), count(int64(r.Priority)), most)
	}
	return t
}

// known is seconds that are known if they are not 0.
func known(sec float64) string {
	if sec <= 0 {
		return "-"
	}
	return units.Number(sec)
}

func boughtTable(v *supply.View, now time.Time) *table.Table {
	t := table.New(table.Left("ENGINE"), table.Left("PHASE"), table.Right("SINCE"), table.Right("STARTED"),
		table.Left("PROVIDER SAYS"), table.Left("URL"), table.Left("REASON"))
	for i := range v.Engines {
		e := &v.Engines[i]
		t.Row(string(e.ID), string(e.State), tablerow.Ago(e.Since, now), tablerow.Ago(e.StartedAt, now),
			string(e.Instance.State),
			e.Instance.URL, cmp.Or(e.Reason, e.Instance.Reason))
	}
	return t
}

// decisionsTable is the newest decisions, the newest first, with what they did.
func decisionsTable(v *supply.View, now time.Time) *table.Table {
	t := table.New(table.Right("NO"), table.Right("WHEN"), table.Right("FROM"), table.Right("TO"), table.Left("CODE"),
		table.Left("RUN"), table.Right("STEP BEFORE s"), table.Right("PREDICTED s"), table.Right("MEASURED s"),
		table.Right("COST $"), table.Left("REASON"))
	for _, d := range slices.Backward(v.Decisions) {
		cost := "-"
		if d.Cost > 0 {
			cost = fmt.Sprintf("%.2f", d.Cost)
		}
		effects := effectsOf(d, v.Measured)
		for i, e := range effects {
			if i == 0 {
				t.Row(count(int64(d.No)), tablerow.Ago(d.At, now), count(int64(d.From)), count(int64(d.To)), string(d.Code),
					string(e.Run),
					known(e.BeforeSec), known(e.PredictedSec), known(e.MeasuredSec), cost, d.Reason)
				continue
			}
			t.Row("", "", "", "", "", string(e.Run), known(e.BeforeSec), known(e.PredictedSec), known(e.MeasuredSec), "", "")
		}
		if text := v.Measured[d.No].Text; text != "" {
			t.Row("", "", "", "", "", "", "", "", "", "", "measured: "+text)
		}
	}
	return t
}

// effectsOf lists a decision's effect on each run, measured if known; at least one entry.
func effectsOf(d scaling.Decision, measured map[int]scaling.Measured) []scaling.Effect {
	effects := d.Predicted
	if m, was := measured[d.No]; was && len(m.Effects) > 0 {
		effects = m.Effects
	}
	if len(effects) == 0 {
		return []scaling.Effect{{}}
	}
	return effects
}

func settingsTable(v *supply.View) *table.Table {
	t := table.New(table.Left("KEY"), table.Right("VALUE"), table.Left("FROM"))
	holds := v.Settings.Effective()
	for _, key := range settable() {
		from := "configuration"
		switch value := key.Text(&holds); {
		case value != key.Text(&v.Settings):
			from = "default"
		case slices.Contains(v.Set, key.Path):
			from = "set"
		}
		t.Row(key.Path, key.Text(&holds), from)
	}
	return t
}
