package experiment

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
)

// Options are what a run of an experiment is told beside its file.
type Options struct {
	Seeds int // how often a cell in which chance plays is played; 0: as the file says
	// Progress, if set, hears of every cell that was played, of how many.
	Progress func(done, of int)
}

// Result is an experiment that was run.
type Result struct {
	Name   string        `json:"name"`
	Title  string        `json:"title"`
	Source string        `json:"source"`
	Seeds  int           `json:"seeds"`
	Parts  []PartResult  `json:"parts"`
	Claims []ClaimResult `json:"claims"`

	Experiment *Experiment `json:"-"` // that was run
}

// PartResult is one table.
type PartResult struct {
	Name  string       `json:"name"`
	Title string       `json:"title"`
	Cells []CellResult `json:"cells"`
}

// CellResult is one cell's metrics by name: values by seed.
type CellResult struct {
	At      []Place            `json:"at"`
	Metrics map[string][]Value `json:"-"`
	Values  map[string]Figures `json:"metrics"`
}

// Value is a metric with one seed.
type Value = float64

// Figures is a metric over the seeds: its mean, and half the width of its 95 % interval; 0 where no chance plays.
type Figures struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half,omitempty"`
	N    int     `json:"n"`
}

// ClaimResult is a claim with its verdict.
type ClaimResult struct {
	Name    string  `json:"name"`
	Says    string  `json:"says"`
	Verdict Verdict `json:"verdict"`
	Shows   string  `json:"shows,omitempty"` // the figures that show it
	Because string  `json:"because,omitempty"`
	Expect  Verdict `json:"expect"` // what was known beforehand
}

// Unexpected lists the claims whose verdict is another than the one known beforehand.
func (r *Result) Unexpected() []ClaimResult {
	return slices.DeleteFunc(slices.Clone(r.Claims), func(c ClaimResult) bool { return c.Verdict == c.Expect })
}

// Run plays every cell and decides every claim. The same experiment with the same options gives the same result, to the
// last bit.
func Run(ctx context.Context, e *Experiment, o Options) (*Result, error) {
	if o.Seeds == 0 {
		o.Seeds = e.Seeds
	}
	r := &Result{Name: e.Name, Title: e.Title, Source: e.Source, Seeds: o.Seeds, Experiment: e}
	done, all := 0, 0
	for _, p := range e.Parts {
		all += len(p.Cells)
	}
	for _, p := range e.Parts {
		part := PartResult{Name: p.Name, Title: p.Title}
		for i := range p.Cells {
			cell, err := p.Cells[i].play(ctx, o.Seeds)
			if err != nil {
				return nil, fmt.Errorf("%s: part %s, %s: %w", e.Name, p.Name, p.Cells[i].Name(), err)
			}
			part.Cells = append(part.Cells, cell)
			if done++; o.Progress != nil {
				o.Progress(done, all)
			}
		}
		r.Parts = append(r.Parts, part)
	}
	return r, r.decide()
}

// play plays one cell with every seed.
func (c *Cell) play(ctx context.Context, seeds int) (CellResult, error) {
	if !c.Random() {
		seeds = 1
	}
	out := CellResult{At: c.At, Metrics: map[string][]float64{}, Values: map[string]Figures{}}
	for seed := range seeds {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		var m map[string]float64
		var err error
		if c.Setup != nil {
			m, err = c.playPipeline(ctx, seed)
		} else {
			m, err = c.playOpenLoop(uint64(seed + 1))
		}
		if err != nil {
			return out, err
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			out.Metrics[name] = append(out.Metrics[name], m[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out.Metrics)) {
		mean := stat.Mean(out.Metrics[name], confidence)
		if math.IsNaN(mean.Mean) { // not known in this cell
			continue
		}
		out.Values[name] = Figures{mean.Mean, max(0, mean.Half), mean.N}
	}
	return out, nil
}

// Figure is a metric of a cell, for people; empty: it is not measured there.
func (c *CellResult) Figure(metric string) (stat.Interval, bool) {
	values, ok := c.Metrics[metric]
	return stat.Mean(values, confidence), ok
}

// decide gives every claim its verdict.
func (r *Result) decide() error {
	find := lookup(r.find)
	for _, c := range r.Experiment.Claims {
		result := ClaimResult{Name: c.Name, Says: c.Says, Verdict: Undecided, Expect: c.Expect}
		var err error
		if c.Check != "" {
			result.Verdict, err = find.decide(c.Check)
		}
		if err == nil {
			result.Shows, err = find.show(c.Shows)
		}
		if err == nil {
			result.Because, err = find.show(c.Because)
		}
		if err != nil {
			return fmt.Errorf("claim %s: %w", c.Name, err)
		}
		r.Claims = append(r.Claims, result)
	}
	return nil
}
