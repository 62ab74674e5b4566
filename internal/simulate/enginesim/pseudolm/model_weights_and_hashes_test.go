package pseudolm

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

func fixture() (*tokenizer.Tokenizer, *Model) {
	t := tokenizer.New()
	return t, New(t)
}

// complete is Complete without a constraint that can fail.
func complete(m *Model, w Weights, prompt []tokenizer.ID, p Params) Completion {
	c, err := m.Complete(w, prompt, p)
	if err != nil {
		panic(err)
	}
	return c
}

func with(change func(*Params)) Params {
	p := DefaultParams()
	change(&p)
	return p
}

func TestReproducible(t *testing.T) {
	t.Parallel()
	tok, m := fixture()
	prompt := tok.Encode("FRANCE, spring 1901.\n<orders>\n")
	w := WeightsOf("qwen", "run-v1", "/adapters/1")
	p := with(func(p *Params) { p.Seed, p.MaxTokens = 7, 40 })
	first, second := complete(m, w, prompt, p), complete(m, w, prompt, p)
	if !slices.Equal(first.Tokens, second.Tokens) || first.Text != second.Text {
		t.Error("one seed gives two completions")
	}
	p.Seed = 8
	if other := complete(m, w, prompt, p); slices.Equal(first.Tokens, other.Tokens) {
		t.Error("two seeds give one completion")
	}
	p.Seed = 7
	if other := complete(m, WeightsOf("qwen", "run-v2", "/adapters/2"), prompt,
		p); slices.Equal(first.Tokens, other.Tokens) {
		t.Error("two adapters give one completion")
	}
}

// variants are ways to sample whose reported distribution is checked.
var variants = map[string]func(*Params){
	"plain":       func(*Params) {},
	"cool":        func(p *Params) { p.Temperature = 0.3 },
	"top-k":       func(p *Params) { p.TopK = 5 },
	"top-p":       func(p *Params) { p.TopP = 0.4 },
	"everything":  func(p *Params) { p.Temperature, p.TopK, p.TopP = 0.7, 40, 0.9 },
	"nearly cold": func(p *Params) { p.Temperature = 0.001 },
}

func TestLogprobsSumToOne(t *testing.T) {
	t.Parallel()
	tok, m := fixture()
	prompt := tok.Encode("The army in Paris")
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := with(func(p *Params) { change(p); p.MaxTokens, p.IgnoreEOS = 4, true })
			c := complete(m, WeightsOf("m"), prompt, p)
			for i, id := range c.Tokens {
				mass, all := 0.0, nextTokens(m, slices.Concat(prompt, c.Tokens[:i]), p)
				for _, logprob := range all {
					mass += math.Exp(logprob)
				}
				if math.Abs(mass-1) > 1e-9 || all[id] != c.Logprobs[i] {
					t.Errorf("token %d: mass %.12f, log-probability %g, told as %g", i, mass, all[id], c.Logprobs[i])
				}
			}
		})
	}
}

// nextTokens are those that may come after a text, with their log-probabilities.
func nextTokens(m *Model, text []tokenizer.ID, p Params) map[tokenizer.ID]float64 {
	s := newSampler(m, WeightsOf("m"), text, &p)
	if err := s.candidates(); err != nil {
		panic(err)
	}
	s.distribution()
	if p.Temperature > 0 {
		s.truncate()
	}
	all := map[tokenizer.ID]float64{}
	for i, id := range s.ids {
		all[id] = s.logprob(i)
	}
	return all
}

// TestFrequencies draws many first tokens and compares their counts with the reported
// probabilities by a chi-square over the likeliest tokens. Seeds are fixed: it cannot flake.
func TestFrequencies(t *testing.T) {
	t.Parallel()
	const draws = 600
	tok, m := fixture()
	prompt := tok.Encode("A PAR ")
	a, err := constraint.NewCompiler(tok, 1).Regex(`(H|- (BUR|GAS|PIC|BRE)|S A MAR( - (BUR|GAS))?)\n`)
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]func(*Params){"constrained": func(p *Params) { p.Constraint, p.Temperature = a, 0.8 }}
	for _, name := range []string{"cool", "top-k", "everything"} {
		checked[name] = variants[name]
	}
	for name, change := range checked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := with(func(p *Params) { change(p); p.MaxTokens = 1 })
			want, got := nextTokens(m, prompt, p), map[tokenizer.ID]float64{}
			for seed := range uint64(draws) {
				p.Seed = seed
				c := complete(m, WeightsOf("m"), prompt, p)
				got[c.Tokens[0]]++
			}
			chi := 0.0
			for id, logprob := range want {
				if expected := math.Exp(logprob) * draws; expected > 20 {
					chi += (got[id] - expected) * (got[id] - expected) / expected
				}
			}
			if chi > 30 { // 8 degrees of freedom: p = 0.0002
				t.Errorf("chi-square %.1f", chi)
			}
		})
	}
}

func TestGreedyTakesTheLikeliest(t *testing.T) {
	t.Parallel()
	tok, m := fixture()
	c := complete(m, WeightsOf("m"), tok.Encode("x"), with(func(p *Params) {
		p.Temperature, p.IgnoreEOS = 0, true
	}))
	greedy := with(func(p *Params) { p.Temperature = 0 })
	for i, logprob := range c.Logprobs {
		all := nextTokens(m, slices.Concat(tok.Encode("x"), c.Tokens[:i]), greedy)
		if slices.Max(slices.Collect(maps.Values(all))) > logprob {
			t.Errorf("token %d is not the likeliest", i)
		}
	}
	if c.Logprobs[0] > -0.1 {
		t.Error("a greedy choice reports the distribution at temperature 1, not a certainty")
	}
}

func TestConstraint(t *testing.T) {
	t.Parallel()
	tok, m := fixture()
	const pattern = `A PAR (H|- (BUR|GAS))\nF BRE (H|- MAO)\n`
	a, err := constraint.NewCompiler(tok, 1).Regex(pattern)
	if err != nil {
		t.Fatal(err)
	}
	oracle := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
	for seed := range uint64(50) {
		c := complete(m, WeightsOf("m"), nil, with(func(p *Params) {
			p.Constraint, p.Seed, p.MaxTokens = a, seed, 64
		}))
		if !oracle.MatchString(c.Text) || c.Finish != FinishStop || c.Stopped != nil {
			t.Errorf("%q ends by %s", c.Text, c.Finish)
		}
		if n := len(c.Tokens); c.Tokens[n-1] != tokenizer.EOS || c.Logprobs[n-1] != 0 {
			t.Errorf("the end is certain, but has log-probability %g", c.Logprobs[n-1])
		}
	}
	short := complete(m, WeightsOf("m"), nil, with(func(p *Params) { p.Constraint, p.MaxTokens = a, 3 }))
	if short.Finish != FinishLength || len(short.Tokens) != 3 {
		t.Errorf("%d tokens, %s", len(short.Tokens), short.Finish)
	}
}

func TestStops(t *testing.T) {
	t.Parallel()
	tok, m := fixture()
	a, err := constraint.NewCompiler(tok, 1).Choice([]string{"one two three"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		change  func(*Params)
		text    string
		stopped any
		finish  Finish
	}{
		{"end", func(*Params) {}, "one two three", nil, FinishStop},
		{"string", func(p *Params) { p.Stop = []string{"o thr"} }, "one tw", "o thr", FinishStop},
		{"length", func(p *Params) { p.MaxTokens = 1 }, "", nil, FinishLength},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := complete(m, WeightsOf("m"), nil, with(func(p *Params) { p.Constraint = a; tt.change(p) }))
			if tt.text != "" && c.Text != tt.text || c.Stopped != tt.stopped || c.Finish != tt.finish {
				t.Errorf("%q, %v, %s", c.Text, c.Stopped, c.Finish)
			}
			if len(c.Logprobs) != len(c.Tokens) {
				t.Errorf("%d log-probabilities of %d tokens", len(c.Logprobs), len(c.Tokens))
			}
		})
	}
}

func TestLengthOfUnconstrainedText(t *testing.T) {
	t.Parallel()
	tok, m := fixture()
	total := 0
	for seed := range uint64(30) {
		total += len(complete(m, WeightsOf("m"), tok.Encode("hello"), with(func(p *Params) {
			p.Seed, p.MaxTokens = seed, 1000
		})).Tokens)
	}
	if mean := total / 30; mean < meanTokens/2 || mean > meanTokens*2 {
		t.Errorf("mean length %d, meant to be about %d", mean, meanTokens)
	}
}

func BenchmarkUnconstrained24Tokens(b *testing.B) {
	tok, m := fixture()
	prompt := tok.Encode("hello")
	p := with(func(p *Params) { p.MaxTokens, p.IgnoreEOS = 24, true })
	for b.Loop() {
		complete(m, WeightsOf("m"), prompt, p)
	}
}
