package cli

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/enginepool"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/settings"
	"github.com/millrace/millrace/internal/table"
	"github.com/millrace/millrace/internal/termtext"
	"github.com/millrace/millrace/internal/units"
)

// quiet is how old the newest sample may be before somebody should look for who takes them.
const quiet = time.Minute

// writeFleet writes what is told of a fleet that is scaled.
func (s *session) writeFleet(v *enginepool.View) error {
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
func fleetLines(v *enginepool.View, now time.Time) []string {
	n := v.Actual
	lines := []string{fmt.Sprintf("wanted   %s (%d to %d): %s", engineNumber(v.Wanted), v.Settings.Min, v.Settings.Max,
		v.Why)}
	actual := fmt.Sprintf("actual   %d serving, %d starting, %d draining", n.Serving, n.Starting, n.Draining)
	if v.Provider == "advise" {
		actual += "; somebody else starts and stops them (provider advise)"
	} else {
		actual += "; bought from " + v.Provider
	}
	lines = append(lines, actual)
	switch {
	case v.Next.IsZero():
	case v.Next.After(now):
		lines = append(lines, fmt.Sprintf("next     change possible in %s", span(v.Next.Sub(now))))
	default:
		lines = append(lines, "next     change possible at any time")
	}
	policy := fmt.Sprintf("policy   %s", v.Settings.Policy)
	if len(v.Set) > 0 {
		policy += fmt.Sprintf("; set while it ran: %s (millrace fleet set --reset)", strings.Join(v.Set, ", "))
	}
	lines = append(lines, policy)
	if v.Cost > 0 {
		lines = append(lines, fmt.Sprintf("cost     $%.2f so far; engines asked for: %s", v.Cost, count(int64(v.Started))))
	} else if v.Started > 0 {
		lines = append(lines, fmt.Sprintf("cost     not known: set price, in $ per engine and hour; engines asked for: %d",
			v.Started))
	}
	if v.Trouble != "" {
		lines = append(lines, fmt.Sprintf("trouble  since %s: %s", ago(v.TroubleSince, now), v.Trouble))
	}
	if age := now.Sub(v.At); age > quiet {
		lines = append(lines, fmt.Sprintf("stale    the newest sample is %s old: is a worker with scaling in its "+
			"configuration alive? millrace worker list", span(age)))
	}
	return lines
}

func engineNumber(n int) string {
	if n == 1 {
		return "1 engine"
	}
	return fmt.Sprintf("%d engines", n)
}

// needsTable is what each run needs of the fleet.
func needsTable(v *enginepool.View) *table.Table {
	t := table.New(table.Left("RUN"), table.Right("COMPUTE C s"), table.Right("CAPACITY P s"), table.Right("AT ENGINES"),
		table.Right("LATENCY R/D s"), table.Right("STEPS"), table.Right("READY"), table.Left("TRAINER"),
		table.Right("PRIORITY"), table.Right("MAX"))
	for i := range v.Sample.Runs {
		r := &v.Sample.Runs[i]
		trainer := "works"
		switch {
		case r.Paused:
			trainer = "the run is paused"
		case r.Waits:
			trainer = "waits"
		}
		most := "-"
		if r.MaxEngines > 0 {
			most = count(int64(r.MaxEngines))
		}
		t.Row(string(r.Name), known(r.C), known(r.P), units.Number(r.Engines), known(r.RD), count(int64(r.Steps)),
			fmt.Sprintf("%.1f", r.ReadyDepth), trainer, count(int64(r.Priority)), most)
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

func boughtTable(v *enginepool.View, now time.Time) *table.Table {
	t := table.New(table.Left("ENGINE"), table.Left("PHASE"), table.Right("SINCE"), table.Right("STARTED"),
		table.Left("PROVIDER SAYS"), table.Left("URL"), table.Left("REASON"))
	for i := range v.Engines {
		e := &v.Engines[i]
		t.Row(string(e.ID), string(e.Phase), ago(e.Since, now), ago(e.StartedAt, now), string(e.Instance.State),
			e.Instance.URL, cmp.Or(e.Reason, e.Instance.Reason))
	}
	return t
}

// decisionsTable is the newest decisions, the newest first, with what they did.
func decisionsTable(v *enginepool.View, now time.Time) *table.Table {
	t := table.New(table.Right("NO"), table.Right("WHEN"), table.Right("FROM"), table.Right("TO"), table.Left("WHY"),
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
				t.Row(count(int64(d.No)), ago(d.At, now), count(int64(d.From)), count(int64(d.To)), string(d.Code), string(e.Run),
					known(e.BeforeSec), known(e.PredictedSec), known(e.MeasuredSec), cost, d.Reason)
				continue
			}
			t.Row("", "", "", "", "", string(e.Run), known(e.BeforeSec), known(e.PredictedSec), known(e.MeasuredSec), "", "")
		}
	}
	return t
}

// effectsOf is what a decision does to each run, as measured where it was; at least one.
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

// settable is the settings that have a value.
func settable() []settings.Key {
	var zero scaling.Config
	return slices.DeleteFunc(slices.Clone(scaling.Keys.Keys), func(k settings.Key) bool {
		return k.Of(&zero).Kind() == reflect.Struct
	})
}

func settingsTable(v *enginepool.View) *table.Table {
	t := table.New(table.Left("KEY"), table.Right("VALUE"), table.Left("FROM"))
	for _, key := range settable() {
		from := "configuration"
		if slices.Contains(v.Set, key.Path) {
			from = "set"
		}
		t.Row(key.Path, key.Text(&v.Settings), from)
	}
	return t
}
