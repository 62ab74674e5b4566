package pageview

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/enginepool"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/units"
	"github.com/millrace/millrace/internal/web/runhistory"
)

// Fleet is the page of a fleet that is scaled.
type Fleet struct {
	Off          string // why it is not; empty: it is
	Trouble      string
	TroubleSince time.Time
	Age          string // of the newest sample, where that is longer than it should be
	Why          string
	Figures      []Figure
	Pool         []PoolRow
	Decisions    []DecisionRow // the latest first
	Runs         []NeedRow
	Settings     []SettingRow
	Happenings   []runhistory.Happening // the latest first
	Window       Window
	Zoomed       bool
	Panels       []Panel
	Workflow     string // address of the fleet's workflow in Temporal's UI; empty: not known
}

// PoolRow is one engine that was bought.
type PoolRow struct {
	ID, Href, Phase, Class, Provider, Reason string
	Since, StartedAt, LeavesAt               time.Time
}

// DecisionRow is one decision, with what it was to do and what it did.
type DecisionRow struct {
	No                                     int
	At                                     time.Time
	Change, Class, Code, Reason, Predicted string
	Measured, MeasuredText, Cost           string
}

// NeedRow is what one run asks of the fleet.
type NeedRow struct {
	Name, Href, Compute, Capacity, Latency, Trainer, Steps, Priority, MaxEngines string
}

// SettingRow is one setting, with the command that changes it.
type SettingRow struct {
	Key, Value, Doc, Command string
	From                     string // who says so: the configuration, an operator instead of it, or the default
	Set                      bool   // by an operator
}

// FleetOff is the page of a fleet that is not scaled.
func FleetOff(why string) Fleet { return Fleet{Off: brief(why)} }

// WholeOfFleet is the window of all that is known of how the fleet was scaled.
func WholeOfFleet(fleet runhistory.Facts, v enginepool.View, now time.Time) Window {
	w := Window{knownSince(fleet, v), now.Truncate(10 * time.Second).Add(10 * time.Second)}
	if w.From.IsZero() {
		w.From = now.Add(-10 * time.Minute)
	}
	return w
}

// knownSince is since when something is known of the fleet's engines; zero: nothing is.
func knownSince(fleet runhistory.Facts, v enginepool.View) time.Time {
	var since time.Time
	for _, d := range v.Decisions {
		since = earlier(since, d.At)
	}
	for _, e := range v.Engines {
		since = earlier(since, e.StartedAt)
	}
	if len(fleet.Scalings) > 0 {
		since = earlier(since, fleet.Scalings[0].At)
	}
	if len(fleet.Loads) > 0 {
		since = earlier(since, fleet.Loads[0].At)
	}
	return since
}

// earlier is the earlier of two times, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// FleetOf makes the page of a fleet that is scaled.
func FleetOf(from enginepool.View, fleet runhistory.Facts, w Window, now time.Time) Fleet {
	v := Fleet{Trouble: brief(from.Trouble), TroubleSince: from.TroubleSince, Why: brief(from.Why), Window: w,
		Figures: fleetFigures(from, now)}
	if age := from.Overdue(now); age > 0 {
		v.Age = units.Seconds(age.Seconds())
	}
	for _, e := range from.Engines {
		v.Pool = append(v.Pool, poolRow(e))
	}
	for _, d := range slices.Backward(from.Decisions) {
		measured, known := from.Measured[d.No]
		v.Decisions = append(v.Decisions, decisionRow(d, measured, known))
	}
	for _, r := range from.Sample.Runs {
		v.Runs = append(v.Runs, needRow(r))
	}
	v.Settings = settingRows(from.Settings, from.Set)
	v.Happenings = latestFirst(scalingHappenings(fleet))
	v.Panels = w.fleetPanels(from, fleet)
	for i := range v.Panels {
		v.Panels[i].JSON = fmt.Sprintf("fleet/charts/%s?%s", v.Panels[i].ID, w.query())
	}
	return v
}

// FleetChartOf is the table of one chart of the fleet's page; false: there is none of that name.
func FleetChartOf(from enginepool.View, fleet runhistory.Facts, w Window, chart string) (Table, bool) {
	return tableOf(w.fleetPanels(from, fleet), chart)
}

// FleetSummary is how a fleet is scaled in a line; without a text it is not.
type FleetSummary struct{ Text, Why, Trouble string }

// FleetSummaryOf sums up how a fleet is scaled.
func FleetSummaryOf(v enginepool.View) FleetSummary {
	return FleetSummary{Text: fleetLine(v), Why: brief(v.Why), Trouble: brief(v.Trouble)}
}

func fleetLine(v enginepool.View) string {
	text := fmt.Sprintf("%d of %s", v.Actual.Serving, plural(v.Wanted, "wanted engine"))
	if v.Actual.Starting > 0 {
		text += fmt.Sprintf(", %d starting", v.Actual.Starting)
	}
	if v.Actual.Draining > 0 {
		text += fmt.Sprintf(", %d draining", v.Actual.Draining)
	}
	return text
}

func fleetFigures(v enginepool.View, now time.Time) []Figure {
	c := v.Settings
	figures := []Figure{
		{"wanted", fmt.Sprint(v.Wanted), "engines, of the provider and all others"},
		{"serving", fmt.Sprint(v.Actual.Serving), "engines that are there and get requests"},
		{"starting", fmt.Sprint(v.Actual.Starting), "asked for, and not serving yet"},
		{"draining", fmt.Sprint(v.Actual.Draining), "finish what they have, and end then"},
		{"bounds", fmt.Sprintf("%d to %d", c.Min, c.Max), "engines at least and at most"},
		{"policy", harmless(string(c.Policy)), "by what engines are bought"},
		{"provider", harmless(v.Provider), "what starts and stops engines"},
		{"asked for so far", fmt.Sprint(v.Started), "engines that the provider was asked for"},
	}
	if !v.Next.IsZero() {
		next := "now"
		if wait := v.Next.Sub(now); wait > 0 {
			next = "in " + units.Seconds(wait.Seconds())
		}
		figures = append(figures, Figure{"next change possible", next, "as far as is known now"})
	}
	if c.Price > 0 || v.Cost > 0 {
		figures = append(figures, Figure{"cost so far", dollars(v.Cost), "of all engines since scaling is on"})
	}
	if c.Price > 0 {
		rate := dollars(v.HourlyCost()) + " per hour"
		if c.Budget > 0 {
			rate += " of " + dollars(c.Budget)
		}
		figures = append(figures, Figure{"cost now", rate, "of the engines that are there, and the budget"})
	}
	if cold := v.Sample.ColdStartSec; cold > 0 {
		figures = append(figures, Figure{"cold start", units.Seconds(cold), "from its start to its first request, as seen"})
	}
	return figures
}

func dollars(v float64) string { return fmt.Sprintf("$%.2f", v) }

func poolRow(e enginepool.Engine) PoolRow {
	row := PoolRow{ID: harmless(string(e.ID)), Phase: string(e.Phase), Since: e.Since, StartedAt: e.StartedAt,
		Provider: string(e.Instance.State), Reason: brief(e.Reason), LeavesAt: e.Instance.LeavesAt}
	if row.Reason == "" {
		row.Reason = brief(e.Instance.Reason)
	}
	if e.Instance.URL != "" && e.Phase != enginepool.Stopping { // a member of the fleet
		row.Href = "engines/" + string(e.ID)
	}
	if e.Phase == enginepool.Serving {
		row.Class = "good"
	}
	return row
}

func decisionRow(d scaling.Decision, m scaling.Measured, measured bool) DecisionRow {
	row := DecisionRow{No: d.No, At: d.At, Change: fmt.Sprintf("%d to %d", d.From, d.To), Code: string(d.Code),
		Reason: brief(d.Reason)}
	for _, e := range d.Predicted {
		row.Predicted = joined(row.Predicted, effectText(e.Run, e.BeforeSec, e.PredictedSec))
	}
	if measured {
		row.MeasuredText = brief(m.Text)
		for _, e := range m.Effects {
			if e.MeasuredSec > 0 {
				row.Measured = joined(row.Measured, effectText(e.Run, e.BeforeSec, e.MeasuredSec))
			}
		}
	}
	if d.Cost > 0 {
		row.Cost = dollars(d.Cost)
	}
	return row
}

// effectText is what a change does to a run's steps.
func effectText(run rollout.RunName, before, after float64) string {
	if after <= 0 {
		return ""
	}
	if before <= 0 {
		return fmt.Sprintf("%s: steps of %s", harmless(string(run.Plain())), units.Seconds(after))
	}
	return fmt.Sprintf("%s: %s to %s", harmless(string(run.Plain())), units.Seconds(before), units.Seconds(after))
}

func joined(a, b string) string {
	return strings.Trim(a+"; "+b, "; ")
}

func needRow(r scaling.Run) NeedRow {
	row := NeedRow{Name: string(r.Name.Plain()), Href: "runs/" + string(r.Name.Plain()), Priority: fmt.Sprint(r.Priority),
		Compute: known(r.C), Trainer: r.TrainerState(), Steps: fmt.Sprint(r.Steps), Capacity: known(r.P),
		Latency: known(r.RD)}
	if row.Capacity != "" && r.Engines > 0 {
		what := "engines"
		if r.Engines == 1 {
			what = "engine"
		}
		row.Capacity += fmt.Sprintf(" with %.3g %s", r.Engines, what)
	}
	if r.MaxEngines > 0 {
		row.MaxEngines = fmt.Sprint(r.MaxEngines)
	}
	return row
}

func known(sec float64) string {
	if sec <= 0 {
		return ""
	}
	return units.Seconds(sec)
}

// settingRows is the settings that may be set while it runs.
func settingRows(c scaling.Config, set []string) []SettingRow {
	var rows []SettingRow
	holds := c.Effective()
	for _, key := range scaling.Keys.Keys {
		text := key.Text(&holds)
		if strings.HasPrefix(text, "{") { // a section
			continue
		}
		from, isSet := "configuration", slices.Contains(set, key.Path)
		switch {
		case text != key.Text(&c):
			from = "default"
		case isSet:
			from = "an operator"
		}
		rows = append(rows, SettingRow{Key: key.Path, Value: harmless(text), Doc: key.Doc, From: from, Set: isSet,
			Command: fmt.Sprintf("millrace fleet set %s=%s", key.Path, harmless(text))})
	}
	return rows
}

// scalingHappenings is what happened to the number of engines, and what went wrong with getting them.
func scalingHappenings(fleet runhistory.Facts) []runhistory.Happening {
	var all []runhistory.Happening
	for _, h := range fleet.Happenings {
		if h.Kind == runhistory.FleetScaled || h.Kind == runhistory.Failed {
			h.Text = brief(h.Text)
			all = append(all, h)
		}
	}
	return all
}

// fleetPanels are wanted and actual engines over time, and what they generated.
func (w Window) fleetPanels(v enginepool.View, fleet runhistory.Facts) []Panel {
	counts, rates := w.engineCounts(fleet.Loads)
	panels := []Panel{
		w.wantedAndThere(v, fleet, counts),
		w.overTime(Panel{ID: "fleet-output", Whole: true, Title: "Output of all engines", Says: "What they generated, by " +
			"their own counters."}, "tok/s", []Legend{{"a", "output"}}, rates, chart.Panel{}),
	}
	return slices.DeleteFunc(panels, func(p Panel) bool { return len(p.Table.Rows) == 0 })
}

// wantedAndThere is how many engines were wanted, as a line over how many there were.
func (w Window) wantedAndThere(v enginepool.View, fleet runhistory.Facts, counts []stretch) Panel {
	p := Panel{ID: "engines", Whole: true, Title: "Engines wanted and there", Says: "How many engines scaling " +
		"wanted, and of how many counters were read. The marks above are its decisions.",
		Legend: []Legend{{"ready", "there"}, {"soft", "wanted"}},
		Table:  Table{Columns: []string{"there", "wanted"}, Unit: "engines"}}
	wanted, since := wantedOver(v, fleet.Scalings), sec(knownSince(fleet, v))
	c := chart.Panel{Height: 200, Layers: []chart.Layer{{Name: "there", Class: "ready"}},
		Flags: w.flags(scalingHappenings(fleet), nil),
		Lines: []chart.PanelLine{{Name: "wanted", Class: "soft", Stairs: true,
			Points: wanted.points(max(sec(w.From), since), min(sec(w.To), sec(v.At)))}}}
	for _, step := range wanted {
		c.Max = max(c.Max, step.Y+1) // so that the line is not the upper edge
	}
	for _, part := range counts {
		if part.to < since || part.from > sec(v.At) {
			continue
		}
		there := 0.0
		if part.values != nil {
			there = part.values[0]
		}
		c.Max = max(c.Max, there+1)
		p.Table.add(part.name, at(part.to), there, wanted.at(part.to))
		c.Columns = append(c.Columns, chart.Column{From: part.from, To: part.to, Values: []float64{there},
			Tip: p.Table.tip(len(p.Table.Rows) - 1)})
	}
	return w.panel(p, c)
}

// engineCounts is of how many engines there were samples in each part of a window, and what they generated together.
func (w Window) engineCounts(loads []runhistory.Load) (counts, rates []stretch) {
	n := 1
	if len(loads) > 0 { // all engines are sampled as often as this one
		n = w.loadParts(loadsOf(loads[len(loads)-1].Engine, loads))
	}
	counts, rates = w.parts(n), w.parts(n)
	seen := make([]map[rollout.EngineID][]float64, n)
	for _, l := range loads {
		k := w.partOf(l.At, n)
		if k < 0 {
			continue
		}
		if seen[k] == nil {
			seen[k] = map[rollout.EngineID][]float64{}
		}
		seen[k][l.Engine] = append(seen[k][l.Engine], l.OutputTPS)
	}
	for k, engines := range seen {
		if engines == nil {
			continue
		}
		rate := 0.0
		for _, id := range slices.Sorted(maps.Keys(engines)) {
			rate += mean(engines[id])
		}
		counts[k].values, rates[k].values = []float64{float64(len(engines))}, []float64{rate}
	}
	return counts, rates
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// wantedSteps are numbers of engines, each of which holds from a moment on.
type wantedSteps []chart.Point

// wantedOver is how many engines were wanted since when, by all decisions that are known, and what is wanted now.
func wantedOver(v enginepool.View, kept []runhistory.Scaling) wantedSteps {
	all := slices.Clone(kept)
	for _, d := range v.Decisions {
		if len(kept) == 0 || d.At.After(kept[len(kept)-1].At) {
			all = append(all, runhistory.Scaling{At: d.At, From: d.From, To: d.To})
		}
	}
	var s wantedSteps
	for i, d := range all {
		if i == 0 {
			s = append(s, chart.Point{X: math.Inf(-1), Y: float64(d.From)})
		}
		s = append(s, chart.Point{X: sec(d.At), Y: float64(d.To)})
	}
	if len(s) == 0 {
		s = wantedSteps{{X: math.Inf(-1), Y: float64(v.Wanted)}}
	}
	return s
}

// at is the number that holds at a moment.
func (s wantedSteps) at(moment float64) float64 {
	value := math.NaN()
	for _, p := range s {
		if p.X <= moment {
			value = p.Y
		}
	}
	return value
}

// points are the numbers from one moment to another.
func (s wantedSteps) points(from, to float64) []chart.Point {
	if to <= from {
		return nil
	}
	points := []chart.Point{{X: from, Y: s.at(from)}}
	for _, p := range s {
		if p.X > from && p.X < to {
			points = append(points, p)
		}
	}
	return append(points, chart.Point{X: to, Y: s.at(to)})
}
