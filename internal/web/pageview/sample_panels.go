package pageview

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
	"github.com/millrace/millrace/internal/web/runhistory"
)

// held are values that were seen at one moment and hold until the next one.
type held struct {
	at     float64
	values []float64
}

// means are the values in equal parts of a window, each weighed by the time for which it held; the last one holds until
// end. A part of which nothing is known has none.
func (w Window) means(seen []held, parts int, end float64) [][]float64 {
	means := make([][]float64, parts)
	covered := make([]float64, parts)
	width := w.seconds() / float64(parts)
	for i, s := range seen {
		to := end
		if i+1 < len(seen) {
			to = seen[i+1].at
		}
		from := max(s.at, sec(w.From))
		to = min(to, sec(w.To))
		for k := int((from - sec(w.From)) / width); k < parts && from < to; k++ {
			part := min(to, sec(w.From)+float64(k+1)*width) - from
			if part <= 0 {
				continue
			}
			if means[k] == nil {
				means[k] = make([]float64, len(s.values))
			}
			for j, v := range s.values {
				means[k][j] += v * part
			}
			covered[k] += part
			from += part
		}
	}
	for k := range means {
		for j := range means[k] {
			means[k][j] /= covered[k]
		}
	}
	return means
}

// levelParts is how many columns the buffer's chart has at most.
const levelParts = 80

// levelHolds is how long the last sample of a buffer holds at most, in seconds: they come every few.
const levelHolds = 15

// bufferSeen is the buffer as it was sampled; before that, as each batch found it.
func bufferSeen(steps []runhistory.Step, levels []runhistory.Level) []held {
	var seen []held
	for i := range steps {
		s := &steps[i]
		at := sec(startOf(*s)) + s.Phases[slices.Index(rollout.Phases(), rollout.PhaseWait)]
		if len(levels) > 0 && at >= sec(levels[0].At) {
			break
		}
		seen = append(seen, held{at, []float64{float64(s.Claim.Ready), float64(s.Claim.InFlight), float64(s.Claim.Queued),
			float64(s.Claim.Claimed), float64(s.Depth * s.GroupsPerStep)}})
	}
	for _, l := range levels {
		seen = append(seen, held{sec(l.At), []float64{float64(l.Ready), float64(l.InFlight), float64(l.Queued),
			float64(l.Claimed), float64(l.Target)}})
	}
	return seen
}

// buffer is the buffer by state over time.
func (w Window) buffer(steps []runhistory.Step, levels []runhistory.Level) Panel {
	p := Panel{ID: "buffer", Title: "Buffer by state", Says: "Groups in play and ready, sampled every few seconds and, " +
		"where no samples are kept any more, when each batch was claimed. The line is the target of " +
		"those below claimed, depth times groups per step: ready groups at 0 mean that the trainer waits for games.",
		Table: Table{Columns: []string{"ready", "in flight", "queued", "claimed", "target"}, Unit: "groups"}}
	c := chart.Panel{Layers: []chart.Layer{{Name: "ready", Class: "ready"}, {Name: "in flight", Class: "in_flight"},
		{Name: "queued", Class: "queued"}, {Name: "claimed", Class: "claimed"}}} // the target is of those below claimed
	for _, l := range c.Layers {
		p.Legend = append(p.Legend, Legend{l.Class, l.Name})
	}
	p.Legend = append(p.Legend, Legend{"soft", "target"})
	target := chart.PanelLine{Name: "target", Class: "soft", Stairs: true}
	seen := bufferSeen(steps, levels)
	parts, end := levelParts, 0.0
	if n := len(seen); n > 0 {
		end = seen[n-1].at + levelHolds
	}
	width := w.seconds() / float64(parts)
	for k, values := range w.means(seen, parts, end) {
		if values == nil {
			continue
		}
		from := sec(w.From) + float64(k)*width
		counts, wanted := values[:4], values[4]
		p.Table.add(units.Seconds(width), at(from+width), values...)
		c.Columns = append(c.Columns, chart.Column{From: from, To: from + width, Values: counts,
			Tip: p.Table.tip(len(p.Table.Rows) - 1)})
		target.Points = append(target.Points, chart.Point{X: from, Y: wanted}, chart.Point{X: from + width, Y: wanted})
	}
	c.Lines = []chart.PanelLine{target}
	return w.panel(p, c)
}

// loadSeries is one line of an engine's chart.
type loadSeries struct {
	name, class string
	of          func(*runhistory.Load) float64
}

// loadsOf are the samples of one engine.
func loadsOf(id rollout.EngineID, all []runhistory.Load) []runhistory.Load {
	return slices.DeleteFunc(slices.Clone(all), func(l runhistory.Load) bool { return l.Engine != id })
}

// WholeOfEngine is the window that holds all samples of an engine.
func WholeOfEngine(id rollout.EngineID, fleet runhistory.Facts, now time.Time) Window {
	w := Window{now.Add(-10 * time.Minute), now.Truncate(10 * time.Second).Add(10 * time.Second)}
	if loads := loadsOf(id, fleet.Loads); len(loads) > 0 {
		w.From = loads[0].At
	}
	return w
}

// enginePanels are an engine's rates over time.
func (w Window) enginePanels(id rollout.EngineID, fleet runhistory.Facts) []Panel {
	loads := loadsOf(id, fleet.Loads)
	flags := w.flags(engineHappenings(id, fleet), nil)
	percent := func(of func(*runhistory.Load) float64) func(*runhistory.Load) float64 {
		return func(l *runhistory.Load) float64 { return 100 * of(l) }
	}
	panels := []Panel{
		w.loads(Panel{ID: "output", Title: "Output", Says: "What it generated, by its own counters. The " +
			"marks above are changes of its state."}, "tok/s", loads, flags,
			loadSeries{"output", "a", func(l *runhistory.Load) float64 { return l.OutputTPS }}),
		w.loads(Panel{ID: "input", Title: "Input", Says: "The prompts that it read, by its own counters, " +
			"those found in its cache among them."}, "tok/s", loads, nil,
			loadSeries{"input", "c", func(l *runhistory.Load) float64 { return l.InputTPS }}),
		w.loads(Panel{ID: "batch", Title: "Batch and queue", Says: "Requests that it generates for, and those that wait " +
			"inside it."}, "requests", loads, nil,
			loadSeries{"batch", "a", func(l *runhistory.Load) float64 { return l.Running }},
			loadSeries{"queue", "b", func(l *runhistory.Load) float64 { return l.Waiting }}),
		w.loads(Panel{ID: "cache", Title: "KV cache", Says: "The share of its memory that is in use, and of the prompts' " +
			"tokens that it had computed before."}, "%", loads, nil,
			loadSeries{"in use", "d", percent(func(l *runhistory.Load) float64 { return l.KVShare })},
			loadSeries{"prefix cache hits", "c", percent(func(l *runhistory.Load) float64 { return l.PrefixHitShare })}),
		w.loads(Panel{ID: "request-time", Title: "Time of a request", Says: "Mean of the requests answered, in the engine " +
			"and before that in the dispatcher's queue."}, "s", loads, nil,
			loadSeries{"in the engine", "a", func(l *runhistory.Load) float64 { return l.RequestSec }},
			loadSeries{"in dispatch", "e", func(l *runhistory.Load) float64 { return l.QueueSec }}),
	}
	return slices.DeleteFunc(panels, func(p Panel) bool { return len(p.Table.Rows) == 0 })
}

// loads is a chart of an engine's samples: means of equal parts of the window, with a gap where there are none.
func (w Window) loads(p Panel, unit string, loads []runhistory.Load, flags []chart.Flag, all ...loadSeries) Panel {
	names := make([]Legend, len(all))
	for i, s := range all {
		names[i] = Legend{s.class, s.name}
	}
	parts := w.parts(w.loadParts(loads))
	counts := make([]float64, len(parts))
	for i := range loads {
		k := w.partOf(loads[i].At, len(parts))
		if k < 0 {
			continue
		}
		if parts[k].values == nil {
			parts[k].values = make([]float64, len(all))
		}
		counts[k]++
		for j, s := range all {
			parts[k].values[j] += s.of(&loads[i])
		}
	}
	for k := range parts {
		for j := range parts[k].values {
			parts[k].values[j] /= counts[k]
		}
	}
	return w.overTime(p, unit, names, parts, chart.Panel{Flags: flags})
}

// loadParts is how many parts a window of samples has: none so short that it lies between two of them.
func (w Window) loadParts(loads []runhistory.Load) int {
	var pauses []float64
	for i := 1; i < len(loads); i++ {
		pauses = append(pauses, loads[i].At.Sub(loads[i-1].At).Seconds())
	}
	if len(pauses) == 0 {
		return 1
	}
	slices.Sort(pauses)
	pause := max(pauses[len(pauses)/2], 0.1)
	return int(min(max(w.seconds()/(1.5*pause), 1), mostBuckets))
}
