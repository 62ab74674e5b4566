package pageview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Fleet is the page of a fleet that is scaled.
type Fleet struct {
	supply.View
	Off        string // why it is not; empty: it is
	Age        string // of the newest sample, where that is longer than it should be
	NextChange string // when one is possible; empty: not known
	Keys       []SettingRow
	Happenings []runhistory.Happening // the latest first
	Workflow   string                 // address of the fleet's workflow in Temporal's UI; empty: not known
	Charts
}

// SettingRow is one setting, with the command that changes it.
type SettingRow struct {
	Key, Value, Doc, Command string
	From                     string // who says so: the configuration, an operator instead of it, or the default
	Set                      bool   // by an operator
}

// WholeOfFleet is the window of all that is known of how the fleet was scaled.
func WholeOfFleet(fleet runhistory.Facts, v supply.View, now time.Time) Window {
	w := Window{knownSince(fleet, v), now.Truncate(10 * time.Second).Add(10 * time.Second)}
	if w.From.IsZero() {
		w.From = now.Add(-10 * time.Minute)
	}
	return w
}

// knownSince is since when something is known of the fleet's engines; zero: nothing is.
func knownSince(fleet runhistory.Facts, v supply.View) time.Time {
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
func FleetOf(from supply.View, fleet runhistory.Facts, w Window, now time.Time) Fleet {
	v := Fleet{View: from, Keys: settingRows(from.Settings, from.Set),
		Happenings: latestFirst(scalingHappenings(fleet)),
		Charts:     Charts{Window: w, Panels: w.fleetPanels(from, fleet)}}
	if age := from.Overdue(now); age > 0 {
		v.Age = units.Seconds(age.Seconds())
	}
	if !from.Next.IsZero() {
		v.NextChange = "now"
		if wait := from.Next.Sub(now); wait > 0 {
			v.NextChange = "in " + units.Seconds(wait.Seconds())
		}
	}
	v.Decisions = slices.Clone(from.Decisions)
	slices.Reverse(v.Decisions)
	return v
}

// Effects is what a decision was to do, or did, to the steps of runs.
func Effects(all []scaling.Effect, after func(scaling.Effect) float64) string {
	var texts []string
	for _, e := range all {
		switch run, sec := string(e.Run.Plain()), after(e); {
		case sec <= 0:
		case e.BeforeSec <= 0:
			texts = append(texts, fmt.Sprintf("%s: steps of %s", run, units.Seconds(sec)))
		default:
			texts = append(texts, fmt.Sprintf("%s: %s to %s", run, units.Seconds(e.BeforeSec), units.Seconds(sec)))
		}
	}
	return strings.Join(texts, "; ")
}

// FleetSummary is how a fleet is scaled in a line; without a text it is not.
type FleetSummary struct{ Text, Why, Trouble string }

// FleetSummaryOf sums up how a fleet is scaled.
func FleetSummaryOf(v supply.View) FleetSummary {
	return FleetSummary{Text: tablerow.Fleet(&v), Why: Brief(v.Why), Trouble: Brief(v.Trouble)}
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
			Command: fmt.Sprintf("millrace engine scaling %s=%s", key.Path, harmless(text))})
	}
	return rows
}

// scalingHappenings is what happened to the number of engines, and what went wrong with getting them.
func scalingHappenings(fleet runhistory.Facts) []runhistory.Happening {
	var all []runhistory.Happening
	for _, h := range fleet.Happenings {
		if h.Kind == runhistory.FleetScaled || h.Kind == runhistory.Failed {
			h.Text = Brief(h.Text)
			all = append(all, h)
		}
	}
	return all
}

// fleetPanels are wanted and actual engines over time, and what they generated.
func (w Window) fleetPanels(v supply.View, fleet runhistory.Facts) []Panel {
	counts, rates := w.engineCounts(fleet.Loads)
	wanted, since := wantedOver(v, fleet.Scalings), sec(knownSince(fleet, v))
	for k := range counts {
		part := &counts[k]
		if part.to < since || part.from > sec(v.At) {
			part.values = nil
			continue
		}
		if part.values == nil {
			part.values = []float64{0}
		}
		part.values = append(part.values, wanted(part.to))
	}
	return withValues([]Panel{
		w.draw(plot{id: "engines", whole: true, title: "Engines wanted and there", unit: "engines", height: 200,
			says: "How many engines scaling wanted, and of how many counters were read. The marks above are its " +
				"decisions.", layers: []Legend{{"ready", "there"}}, lines: []Legend{{"soft", "wanted"}}, stairs: true,
			parts: counts, flags: w.flags(scalingHappenings(fleet), nil)}),
		w.draw(plot{id: "fleet-output", whole: true, title: "Output of all engines", unit: "tok/s",
			says: "What they generated, by their own counters.", lines: []Legend{{"engine", "output"}}, parts: rates}),
	})
}

// wantedOver is how many engines were wanted at a moment, by all decisions that are known.
func wantedOver(v supply.View, kept []runhistory.Scaling) func(moment float64) float64 {
	all := slices.Clone(kept)
	for _, d := range v.Decisions {
		if len(kept) == 0 || d.At.After(kept[len(kept)-1].At) {
			all = append(all, runhistory.Scaling{At: d.At, From: d.From, To: d.To})
		}
	}
	return func(moment float64) float64 {
		wanted := v.Wanted
		if len(all) > 0 {
			wanted = all[0].From
		}
		for _, d := range all {
			if sec(d.At) <= moment {
				wanted = d.To
			}
		}
		return float64(wanted)
	}
}
