package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/interval"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/sim/openloop"
)

// confidence of every interval of a sweep. Where several levels are compared, it holds for all of them together
// (Bonferroni's correction).
const confidence = 0.95

// SweepRow is one setting: means over trials, and how far they may be off.
type SweepRow struct {
	WindowSec   float64               `json:"window_seconds"`
	MaxBatch    int                   `json:"max_batch"`
	Order       rollout.DispatchOrder `json:"order"`
	P50Sec      interval.Interval     `json:"request_p50_seconds"` // of the requests of one trial
	P95Sec      interval.Interval     `json:"request_p95_seconds"`
	MakespanSec interval.Interval     `json:"makespan_seconds"` // from the first submission to the last answer
	OutputTPS   interval.Interval     `json:"output_tps"`       // output tokens over the makespan
	Calls       float64               `json:"calls"`            // to engines
	Tokens      float64               `json:"output_tokens"`
}

// SweepEffect is what one level of one setting does against its first level, all else alike: within each round, the
// mean over the settings that have the level, over that of those that have the first.
type SweepEffect struct {
	Setting string            `json:"setting"`
	Level   string            `json:"level"`
	Against string            `json:"against"`
	Measure string            `json:"measure"`
	Change  interval.Interval `json:"change"`  // as a share: 0.1 is a tenth more
	Decided bool              `json:"decided"` // the interval does not hold 0
}

// SweepResult is what a sweep measured.
type SweepResult struct {
	Config  SweepConfig   `json:"-"`
	Model   string        `json:"model"`
	Rows    []SweepRow    `json:"rows"`
	Effects []SweepEffect `json:"effects"`
	// DriftShare is by how much the last round took longer than the first, over all settings.
	DriftShare float64 `json:"drift_share"`
}

func newSweepResult(cfg SweepConfig, model string, cells []SweepCell, trials [][]sweepTrial) SweepResult {
	r := SweepResult{Config: cfg, Model: model}
	for i, cell := range cells {
		r.Rows = append(r.Rows, sweepRow(cell, trials[i]))
	}
	for _, m := range measures {
		r.Effects = append(r.Effects, effects(cfg, cells, trials, m)...)
	}
	r.DriftShare = roundMean(trials, len(trials[0])-1)/roundMean(trials, 0) - 1
	return r
}

// measures are what effects are reported of.
var measures = []measure{
	{"request p50", func(t *sweepTrial) float64 { return openloop.Percentile(t.latencies, 0.5) }},
	{"makespan", func(t *sweepTrial) float64 { return t.makespan }},
}

type measure struct {
	name string
	of   func(*sweepTrial) float64
}

func sweepRow(cell SweepCell, trials []sweepTrial) SweepRow {
	over := func(of func(*sweepTrial) float64) interval.Interval {
		var values []float64
		for i := range trials {
			values = append(values, of(&trials[i]))
		}
		return interval.Mean(values, confidence)
	}
	return SweepRow{
		WindowSec: cell.Window.Seconds(), MaxBatch: cell.MaxBatch, Order: cell.Order,
		P50Sec:      over(func(t *sweepTrial) float64 { return openloop.Percentile(t.latencies, 0.5) }),
		P95Sec:      over(func(t *sweepTrial) float64 { return openloop.Percentile(t.latencies, 0.95) }),
		MakespanSec: over(func(t *sweepTrial) float64 { return t.makespan }),
		OutputTPS:   over(func(t *sweepTrial) float64 { return ratio(float64(t.output), t.makespan) }),
		Calls:       over(func(t *sweepTrial) float64 { return float64(t.calls) }).Mean,
		Tokens:      over(func(t *sweepTrial) float64 { return float64(t.output) }).Mean,
	}
}

// level is one value of one setting, and which cells have it.
type level struct {
	name string
	has  func(SweepCell) bool
}

type setting struct {
	name   string
	levels []level
}

func (c SweepConfig) settings() []setting {
	all := []setting{{name: "window"}, {name: "max batch"}, {name: "order"}}
	for _, w := range c.Windows {
		all[0].levels = append(all[0].levels, level{milliseconds(w), func(s SweepCell) bool { return s.Window == w }})
	}
	for _, b := range c.MaxBatches {
		all[1].levels = append(all[1].levels, level{batchName(b), func(s SweepCell) bool { return s.MaxBatch == b }})
	}
	for _, o := range c.Orders {
		all[2].levels = append(all[2].levels, level{string(o), func(s SweepCell) bool { return s.Order == o }})
	}
	return slices.DeleteFunc(all, func(s setting) bool { return len(s.levels) < 2 })
}

func batchName(most int) string {
	if most == 0 {
		return "none"
	}
	return fmt.Sprint(most)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%g ms", float64(d)/float64(time.Millisecond))
}

// effects compares the levels of every setting in one measure, round by round: what a round has in common, such as a
// busy machine, is in both sides and does not count.
func effects(cfg SweepConfig, cells []SweepCell, trials [][]sweepTrial, m measure) []SweepEffect {
	comparisons := 0
	for _, s := range cfg.settings() {
		comparisons += len(s.levels) - 1
	}
	var out []SweepEffect
	for _, s := range cfg.settings() {
		for _, l := range s.levels[1:] {
			var changes []float64
			for round := range trials[0] {
				at := meanOf(cells, trials, round, l, m)
				changes = append(changes, at/meanOf(cells, trials, round, s.levels[0], m)-1)
			}
			change := interval.Mean(changes, 1-(1-confidence)/float64(comparisons))
			out = append(out, SweepEffect{Setting: s.name, Level: l.name, Against: s.levels[0].name, Measure: m.name,
				Change: change, Decided: change.Excludes(0)})
		}
	}
	return out
}

func meanOf(cells []SweepCell, trials [][]sweepTrial, round int, l level, m measure) float64 {
	sum, n := 0.0, 0.0
	for i, cell := range cells {
		if l.has(cell) {
			sum += m.of(&trials[i][round])
			n++
		}
	}
	return sum / n
}

// roundMean is the mean makespan of a round.
func roundMean(trials [][]sweepTrial, round int) float64 {
	sum := 0.0
	for _, t := range trials {
		sum += t[round].makespan
	}
	return sum / float64(len(trials))
}
