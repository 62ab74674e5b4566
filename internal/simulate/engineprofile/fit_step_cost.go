package engineprofile

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// Fit is what an engine costs, by the measurements.
type Fit struct {
	Cost         batch.Cost
	CallOverhead time.Duration
	// TokenBudget is the engine's tokens per step, if the prefill times show one; 0: they do not.
	TokenBudget int
	Rows        []FittedRow
	// Adapter is how many settings the LoRA factor rests on; 0: it is not measured.
	Adapter int
}

// FittedRow is one setting beside what the fit makes of it.
type FittedRow struct {
	Setting
	Prompts int     // tokens of a prompt, on the mean
	Sec     float64 // median of the rounds
	Fitted  float64 // the same for the same prompts
	Spread  float64 // between the fastest and the slowest round, as a share
}

// Error is how much more the fit says than was measured, as a share.
func (r *FittedRow) Error() float64 { return r.Fitted/r.Sec - 1 }

// unknowns has, for each term of the cost, one unit of it.
var unknowns = []batch.Cost{
	stepTerm:      {Step: time.Millisecond},
	tokenTerm:     {Token: time.Microsecond},
	decodeTerm:    {Decode: time.Millisecond},
	kvTerm:        {KV: 1000},
	attentionTerm: {Attention: 100},
}

// Places of the unknowns; the call overhead comes behind those of the cost.
const (
	stepTerm = iota
	tokenTerm
	decodeTerm
	kvTerm
	attentionTerm
	overheadTerm
	terms
)

// fitCost finds the terms of batch.Cost and the overhead of a call. Every setting's requests are put through the
// scheduler of the simulated engine, once for each term: for requests that come together what the steps compute does
// not depend on how long they take, so that a setting's time is a sum of the terms, so many times each. What is not
// linear, the hidden tokens and the token budget, is searched.
func fitCost(m *Measurements, budget int) (Fit, error) {
	if err := m.enough(); err != nil {
		return Fit{}, err
	}
	f := &fitter{rtt: m.RoundTrip}
	for i := range m.Base {
		for _, round := range m.Base[i].Rounds {
			f.rows = append(f.rows, sample{m.Base[i].Setting, round})
			f.longest = max(f.longest, slices.Max(round.Prompts))
		}
	}
	best := f.search(budget)
	// A smaller budget is believed only if it explains the times much better: it has a step more for each of its chunks.
	proof := best.left / budgetProof
	for _, smaller := range []int{8192, 4096, 2048, 1024, 512} {
		if smaller >= budget || smaller >= f.longest {
			continue
		}
		if other := f.search(smaller); other.left < min(best.left, proof) {
			best = other
			best.fit.TokenBudget = smaller
		}
	}
	fit := best.fit
	if fit.Cost.Step <= 0 || fit.Cost.Token <= 0 {
		return Fit{}, fmt.Errorf("the times do not rise with the work: a step is fitted with %v and a token with %v; is "+
			"the engine busy with other requests?", fit.Cost.Step, fit.Cost.Token)
	}
	f.budget = budget
	if fit.TokenBudget > 0 {
		f.budget = fit.TokenBudget
	}
	fit.Cost.LoRA = 1
	for i := range m.Base {
		fit.Rows = append(fit.Rows, f.row(&m.Base[i], fit))
	}
	fit.adapter(f, m.WithAdapter)
	return fit, nil
}

// budgetProof is by how much a smaller token budget must explain the times better.
const budgetProof = 3

// adapter finds the factor of an adapter: the median of what its settings take longer, calls' overhead apart.
func (fit *Fit) adapter(f *fitter, rows []Measured) {
	var factors []float64
	for i := range rows {
		overhead := 0.0
		if rows[i].Less == 0 {
			overhead = fit.CallOverhead.Seconds()
		}
		for _, round := range rows[i].Rounds {
			factors = append(factors, (round.Sec-overhead)/(f.predict(&sample{rows[i].Setting, round}, *fit)-overhead))
		}
	}
	if len(factors) == 0 {
		return
	}
	fit.Adapter = len(rows)
	fit.Cost.LoRA = max(1, stat.Median(factors))
	for i := range rows {
		fit.Rows = append(fit.Rows, f.row(&rows[i], *fit))
	}
}

// row is a setting beside the fit.
func (f *fitter) row(m *Measured, fit Fit) FittedRow {
	r := FittedRow{Setting: m.Setting, Sec: m.seconds()}
	var fitted, measured []float64
	prompts, tokens := 0, 0
	for _, round := range m.Rounds {
		fitted = append(fitted, f.predict(&sample{m.Setting, round}, fit))
		measured = append(measured, round.Sec)
		for _, p := range round.Prompts {
			prompts, tokens = prompts+1, tokens+p
		}
	}
	r.Prompts, r.Fitted = tokens/max(prompts, 1), stat.Median(fitted)
	r.Spread = (slices.Max(measured) - slices.Min(measured)) / r.Sec
	return r
}

// sample is one round of a setting.
type sample struct {
	Setting
	Round
}

// fitter holds what is the same for all guesses of what is not linear.
type fitter struct {
	rows    []sample
	steps   []float64 // what each row takes with steps of a millisecond, and nothing else
	rtt     float64
	longest int
	budget  int
}

// guess is a fit under one guess of hidden tokens and budget.
type guess struct {
	fit  Fit
	left float64 // what it leaves unexplained
}

// search finds the best number of hidden tokens for a budget: widely, then closer and closer.
func (f *fitter) search(budget int) guess {
	f.budget = budget
	linear := make([][]float64, len(f.rows)) // all terms but the tokens', which depend on how many are hidden
	f.steps = make([]float64, len(f.rows))
	for i := range f.rows {
		f.steps[i] = f.time(&f.rows[i], unknowns[stepTerm])
		linear[i] = f.features(i)
	}
	tried := map[int]guess{}
	try := func(hidden int) guess {
		g, known := tried[hidden]
		if !known {
			g = f.solve(linear, hidden)
			tried[hidden] = g
		}
		return g
	}
	at, best := 0, try(0)
	consider := func(hidden int) {
		if g := try(hidden); hidden >= 0 && g.left < best.left {
			at, best = hidden, g
		}
	}
	for _, hidden := range []int{16, 32, 64, 96, 128, 192, 256, 384, 512} {
		consider(hidden)
	}
	for width := 32; width > 0; width /= 2 {
		consider(max(0, at-width))
		consider(at + width)
	}
	return best
}

// solve fits everything else under a guess of the hidden tokens.
func (f *fitter) solve(linear [][]float64, hidden int) guess {
	shortest := math.Inf(1)
	for i := range f.rows {
		shortest = min(shortest, f.rows[i].Sec)
	}
	equations := make([]equation, 0, len(f.rows)+1)
	for i := range f.rows {
		r := &f.rows[i]
		of := slices.Clone(linear[i])
		cost := unknowns[tokenTerm]
		cost.FreeTokens = hidden
		of[tokenTerm] = f.count(i, cost)
		equations = append(equations, equation{of: of, value: r.Sec, weight: 1 / r.Sec})
	}
	// A call costs about what a call that asks for nothing does; without this, overhead and step are not told apart.
	overhead := make([]float64, terms)
	overhead[overheadTerm] = 1
	equations = append(equations, equation{of: overhead, value: f.rtt, weight: 1 / shortest})
	x, left := solve(equations, terms)
	in := func(term int, unit time.Duration) time.Duration {
		return time.Duration(math.Round(x[term] * float64(unit)))
	}
	return guess{left: left, fit: Fit{
		Cost: batch.Cost{
			Step: in(stepTerm, time.Millisecond), FreeTokens: hidden, Token: in(tokenTerm, time.Microsecond),
			Decode: in(decodeTerm, time.Millisecond), KV: x[kvTerm] * 1000, Attention: x[attentionTerm] * 100, LoRA: 1,
		},
		CallOverhead: in(overheadTerm, time.Second),
	}}
}

// features is how often each linear term occurs in a setting: seconds in one unit of each.
func (f *fitter) features(i int) []float64 {
	of := make([]float64, terms)
	of[stepTerm] = f.steps[i]
	for _, term := range []int{decodeTerm, kvTerm, attentionTerm} {
		of[term] = f.count(i, unknowns[term])
	}
	if f.rows[i].Less == 0 {
		of[overheadTerm] = 1 // a difference of two calls has none
	}
	return of
}

// count is the seconds that one unit of a term adds to a sample: what it takes with steps of a millisecond and the
// term, less what it takes with the steps alone.
func (f *fitter) count(i int, cost batch.Cost) float64 {
	cost.Step = unknowns[stepTerm].Step
	return f.time(&f.rows[i], cost) - f.steps[i]
}

// predict is how long a setting takes by a fit.
func (f *fitter) predict(r *sample, fit Fit) float64 {
	sec := f.time(r, fit.Cost)
	if r.Less == 0 {
		sec += fit.CallOverhead.Seconds()
	}
	return sec
}

// time is how long a setting takes at a cost, without calls' overhead.
func (f *fitter) time(r *sample, cost batch.Cost) float64 {
	sec := f.makespan(r.Prompts, r.Output, r.Adapter, cost)
	if r.Less > 0 {
		sec -= f.makespan(r.LessPrompts, r.Less, r.Adapter, cost)
	}
	return sec
}

// makespan is when the last of some requests ends that all come at once.
func (f *fitter) makespan(prompts []int, output int, withAdapter bool, cost batch.Cost) float64 {
	cost.LoRA = max(cost.LoRA, 1)
	kv := 0
	for _, p := range prompts {
		kv += p + output
	}
	s := batch.New(cost, batch.Limits{Sequences: len(prompts), Tokens: f.budget, KV: kv, Block: 16, Adapters: 1,
		HostAdapter: 1, NoPrefix: true})
	adapter := ""
	if withAdapter {
		adapter = "a"
	}
	for i, p := range prompts {
		if err := s.Submit(0, batch.Request{ID: int64(i), Adapter: adapter, Prompt: p, Output: output}); err != nil {
			panic(err) // There is room for all of them.
		}
	}
	last := time.Duration(0)
	for {
		at, busy := s.Next()
		if !busy {
			return last.Seconds()
		}
		events := s.Advance(at)
		for _, e := range events {
			last = max(last, e.At)
		}
	}
}
