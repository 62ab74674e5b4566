package pageview

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// held are values that were seen at one moment and hold until another.
type held struct {
	at, until float64
	values    []float64
}

// until has each sample hold until the next one, but no longer than so many seconds.
func until(seen []held, longest float64) []held {
	for i := range seen {
		seen[i].until = seen[i].at + longest
		if i+1 < len(seen) {
			seen[i].until = min(seen[i].until, seen[i+1].at)
		}
	}
	return seen
}

// means are the values in equal parts of a window, each weighed by the time for which it held. A part of which nothing
// is known has none.
func (w Window) means(seen []held, count int) []stretch {
	parts, covered := make([]stretch, count), make([]float64, count)
	begin, width := sec(w.From), w.seconds()/float64(count)
	for k := range parts {
		from := begin + float64(k)*width
		parts[k] = stretch{from: from, to: from + width, name: units.Seconds(width)}
	}
	for _, s := range seen {
		from, to := max(s.at, begin), min(s.until, sec(w.To))
		for k := int((from - begin) / width); k < count && from < to; k++ {
			part := min(to, parts[k].to) - from
			if part <= 0 {
				continue
			}
			if parts[k].values == nil {
				parts[k].values = make([]float64, len(s.values))
			}
			for j, v := range s.values {
				parts[k].values[j] += v * part
			}
			covered[k] += part
			from += part
		}
	}
	for k := range parts {
		for j := range parts[k].values {
			parts[k].values[j] /= covered[k]
		}
	}
	return parts
}

// forever is longer than any run.
const forever = 1e12

// levelHolds is how long the last sample of a buffer holds, in seconds: they come every few.
const levelHolds = 15

// bufferSeen is the buffer as it was sampled; before that, as each batch found it.
func bufferSeen(steps []runhistory.Step, levels []runhistory.Level) []held {
	var seen []held
	for i := range steps {
		s := &steps[i]
		at := sec(startOf(*s)) + s.Phases[slices.Index(steprecord.Phases(), steprecord.PhaseWait)]
		if len(levels) > 0 && at >= sec(levels[0].At) {
			break
		}
		seen = append(seen, held{at: at, values: []float64{float64(s.Claim.Ready), float64(s.Claim.InFlight),
			float64(s.Claim.Queued), float64(s.Claim.Claimed), float64(s.Depth * s.GroupsPerStep)}})
	}
	for _, l := range levels {
		seen = append(seen, held{at: sec(l.At), values: []float64{float64(l.Ready), float64(l.InFlight),
			float64(l.Queued), float64(l.Claimed), float64(l.Target)}})
	}
	seen = until(seen, forever)
	if n := len(seen); n > 0 {
		seen[n-1].until = seen[n-1].at + levelHolds
	}
	return seen
}

// buffer is the buffer by state over time.
func (w Window) buffer(steps []runhistory.Step, levels []runhistory.Level) Panel {
	return w.draw(plot{id: "buffer", title: "Buffer by state", unit: "groups", stairs: true,
		says: "Groups in play and ready, sampled every few seconds and, where no samples are kept any more, when each " +
			"batch was claimed. The line is the target of those below claimed, depth times groups per step: ready groups " +
			"at 0 mean that the trainer waits for games.",
		layers: []Legend{{"ready", "ready"}, {"in_flight", "in flight"}, {"queued", "queued"}, {"claimed", "claimed"}},
		lines:  []Legend{{"soft", "target"}}, parts: w.means(bufferSeen(steps, levels), mostBuckets)})
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

// sampled is the means of an engine's samples in parts of the window, with a gap where there are none: a sample holds
// twice as long as samples usually are apart.
func (w Window) sampled(loads []runhistory.Load, all ...line[*runhistory.Load]) []stretch {
	var seen []held
	var pauses []float64
	for i := range loads {
		seen = append(seen, held{at: sec(loads[i].At), values: values(all, &loads[i])})
		if i > 0 {
			pauses = append(pauses, loads[i].At.Sub(loads[i-1].At).Seconds())
		}
	}
	pause := levelHolds / 2.0
	if len(pauses) > 0 {
		slices.Sort(pauses)
		pause = max(pauses[len(pauses)/2], 0.1)
	}
	return w.means(until(seen, 2*pause), mostBuckets)
}

// enginePanels are an engine's rates over time.
func (w Window) enginePanels(id rollout.EngineID, fleet runhistory.Facts) []Panel {
	loads := loadsOf(id, fleet.Loads)
	var panels []Panel
	add := func(p plot, all ...line[*runhistory.Load]) {
		p.lines, p.parts = legends(all), w.sampled(loads, all...)
		panels = append(panels, w.draw(p))
	}
	add(plot{id: "output", title: "Output", unit: "tok/s", flags: w.flags(engineHappenings(id, fleet), nil),
		says: "What it generated, by its own counters. The marks above are changes of its state."},
		line[*runhistory.Load]{"output", "engine", outputOf})
	add(plot{id: "input", title: "Input", unit: "tok/s", says: "The prompts that it read, by its own counters, those " +
		"found in its cache among them."},
		line[*runhistory.Load]{"input", "engine", func(l *runhistory.Load) float64 { return l.InputTPS }})
	add(plot{id: "batch", title: "Batch and queue", unit: "requests", says: "Requests that it generates for, and those " +
		"that wait inside it."},
		line[*runhistory.Load]{"batch", "engine", func(l *runhistory.Load) float64 { return l.Running }},
		line[*runhistory.Load]{"queue", "queue", func(l *runhistory.Load) float64 { return l.Waiting }})
	add(plot{id: "cache", title: "KV cache", unit: "%", says: "The share of its memory that is in use, and of the " +
		"prompts' tokens that it had computed before."},
		line[*runhistory.Load]{"in use", "engine", func(l *runhistory.Load) float64 { return 100 * l.KVShare }},
		line[*runhistory.Load]{"prefix cache hits", "soft", func(l *runhistory.Load) float64 {
			return 100 * l.PrefixHitShare
		}})
	add(plot{id: "request-time", cut: true, title: "Time of a request", unit: "s", says: "Mean of the requests " +
		"answered, in the engine and before that in the dispatcher's queue."},
		line[*runhistory.Load]{"in the engine", "engine", func(l *runhistory.Load) float64 { return l.RequestSec }},
		line[*runhistory.Load]{"in dispatch", "queue", func(l *runhistory.Load) float64 { return l.QueueSec }})
	return withValues(panels)
}

func outputOf(l *runhistory.Load) float64 { return l.OutputTPS }

// engineCounts is of how many engines there were samples in each part of a window, and what they generated together.
func (w Window) engineCounts(loads []runhistory.Load) (counts, rates []stretch) {
	by := map[rollout.EngineID][]runhistory.Load{}
	var ids []rollout.EngineID
	for _, l := range loads {
		if by[l.Engine] == nil {
			ids = append(ids, l.Engine)
		}
		by[l.Engine] = append(by[l.Engine], l)
	}
	counts, rates = w.means(nil, mostBuckets), w.means(nil, mostBuckets)
	for _, id := range ids {
		for k, part := range w.sampled(by[id], line[*runhistory.Load]{of: outputOf}) {
			if part.values == nil {
				continue
			}
			if counts[k].values == nil {
				counts[k].values, rates[k].values = []float64{0}, []float64{0}
			}
			counts[k].values[0]++
			rates[k].values[0] += part.values[0]
		}
	}
	return counts, rates
}
