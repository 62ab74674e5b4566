package pageview

import (
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/web/runhistory"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// What was seen holds until the next look: the parts of a window, each for its time, add up to it.
func TestMeansHoldWhatWasSeen(t *testing.T) {
	t.Parallel()
	w := Window{start, start.Add(100 * time.Second)}
	from := sec(start)
	for _, tt := range []struct {
		name string
		seen []held
		end  float64
		want float64 // value times seconds, over the window
	}{
		{"nothing", nil, 0, 0},
		{"once, for ten seconds", []held{{at: from + 5, values: []float64{2}}}, from + 15, 20},
		{"before the window and on", []held{{at: from - 50, values: []float64{1}}, {at: from + 30, values: []float64{4}}},
			from + 1000, 30 + 280},
		{"up to the end and down", []held{{at: from, values: []float64{1}}, {at: from + 33, values: []float64{0}},
			{at: from + 66, values: []float64{1}}},
			from + 100, 33 + 34},
		{"after the window", []held{{at: from + 200, values: []float64{1}}}, from + 300, 0},
	} {
		const parts = 7
		sum := 0.0
		seen := until(tt.seen, forever)
		if n := len(seen); n > 0 {
			seen[n-1].until = tt.end
		}
		for _, part := range w.means(seen, parts) {
			if part.values == nil {
				continue
			}
			first := tt.seen[0].at // nothing is known before it, and after the end
			sum += part.values[0] * max(0, min(part.to, tt.end)-max(part.from, first))
		}
		if math.Abs(sum-tt.want) > 1e-5 {
			t.Errorf("%s: %v, want %v", tt.name, sum, tt.want)
		}
	}
}

// A buffer is what was sampled, and before there were samples what the batches found.
func TestBufferIsSampled(t *testing.T) {
	t.Parallel()
	all := steps(20) // 220 s
	for i := range all {
		all[i].Claim = steprecord.BufferCounts{Ready: 16}
	}
	var levels []runhistory.Level
	for at := 100 * time.Second; at < 220*time.Second; at += 5 * time.Second {
		levels = append(levels, runhistory.Level{At: start.Add(at), Ready: 3, InFlight: 13, Target: 16})
	}
	w := Window{start, start.Add(220 * time.Second)}
	rows := w.buffer(all, levels).Table.Rows
	first, last := rows[1], rows[len(rows)-1]
	if math.Abs(first.Values[0]-16) > 1e-9 || math.Abs(last.Values[0]-3) > 1e-9 ||
		math.Abs(last.Values[1]-13) > 1e-9 || math.Abs(last.Values[4]-16) > 1e-9 {
		t.Errorf("first %q, last %q", first.Cells(), last.Cells())
	}
}

// An engine's charts are of its own samples, with a gap where it was not sampled.
func TestEnginePanels(t *testing.T) {
	t.Parallel()
	var fleet runhistory.Facts
	for i := range 100 {
		if i >= 40 && i < 60 { // it was lost
			continue
		}
		at := start.Add(time.Duration(5*i) * time.Second)
		fleet.Loads = append(fleet.Loads, runhistory.Load{At: at, Engine: "a", OutputTPS: 100, Running: 2, KVShare: 0.25},
			runhistory.Load{At: at, Engine: "b", OutputTPS: 900})
	}
	fleet.Happenings = []runhistory.Happening{{At: start.Add(200 * time.Second), Kind: runhistory.EngineChanged,
		Text: "a is lost: no answer"}}
	now := start.Add(495 * time.Second)
	w := WholeOfEngine("a", fleet, now)
	engine := enginestate.Engine{ID: "a", Load: enginestate.EngineLoad{At: now, LifeAt: now.Add(-7 * time.Second)}}
	view := EngineOf(engine, nil, fleet, w, now)
	if view.SignOfLife != "7 s ago" {
		t.Errorf("sign of life %q", view.SignOfLife)
	}
	if len(view.Panels) != 5 || len(view.Happenings) != 1 {
		t.Fatalf("%d charts, happenings %v", len(view.Panels), view.Happenings)
	}
	table := view.Panels[0].Table
	widest := time.Duration(0)
	for i, row := range table.Rows {
		if math.Abs(row.Values[0]-100) > 1e-9 {
			t.Errorf("row %d is %v, as if it were another engine's", i, row.Values[0])
		}
		if i > 0 {
			widest = max(widest, row.At.Sub(table.Rows[i-1].At))
		}
	}
	if widest < 90*time.Second || len(table.Rows) > mostBuckets {
		t.Errorf("%d rows, at most %v apart", len(table.Rows), widest)
	}
	if cache := view.Panels[3].Table; math.Abs(cache.Rows[0].Values[0]-25) > 1e-9 {
		t.Errorf("KV cache %v %%", cache.Rows[0].Values[0])
	}
}
