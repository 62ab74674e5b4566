package pseudolm

import (
	"cmp"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// sampler holds the state of one completion and the scratch space of its steps.
type sampler struct {
	model   *Model
	weights Weights
	params  *Params
	rng     *virtualtime.Random
	exp     [levels]float64 // exp of a level's logit at the temperature, for the common path
	eosExp  float64

	text []tokenizer.ID // prompt and completion
	// Of a policy: the prompt's features, nil before the first step, and the hash of the answer so far.
	features []uint64
	after    uint64
	at       *constraint.State

	ids    []tokenizer.ID      // the candidates of this step, read only
	own    []tokenizer.ID      // room for them where they are not the whole vocabulary
	listed []*constraint.State // where each leads, under a constraint
	probs  []float64           // theirs, not normalised; zero where truncated
	total  float64             // their sum
	order  []int32             // room for rankings
}

func newSampler(m *Model, w Weights, prompt []tokenizer.ID, p *Params) *sampler {
	s := &sampler{model: m, weights: w, params: p, rng: virtualtime.SplitMix(stat.Mix(p.Seed))}
	s.text = append(make([]tokenizer.ID, 0, len(prompt)+min(p.MaxTokens, 64)), prompt...)
	t := s.temperature()
	for i, logit := range m.logits {
		s.exp[i] = math.Exp(logit / t)
	}
	s.eosExp = math.Exp(m.eosBias / t)
	if p.Constraint != nil {
		s.at = p.Constraint.Start()
	}
	return s
}

// temperature is what logits are divided by. Greedy choice reports the undivided distribution.
func (s *sampler) temperature() float64 {
	if s.params.Temperature == 0 {
		return 1
	}
	return max(s.params.Temperature, minTemperature)
}

// step samples one token: the index of a candidate.
func (s *sampler) step() (picked int, err error) {
	if err := s.candidates(); err != nil {
		return 0, err
	}
	s.distribution()
	if s.params.Temperature == 0 {
		return argmax(s.probs), nil
	}
	s.truncate()
	return s.draw(), nil
}

// candidates lists what may come next, control tokens other than the end excluded. Under a constraint it is the tokens
// that this allows, and the end where it may end.
func (s *sampler) candidates() error {
	if s.params.Constraint == nil {
		s.ids = s.model.all
		return nil
	}

	allowed, err := s.params.Constraint.Tokens(s.at)
	if err != nil {
		return err
	}
	s.own, s.listed = s.own[:0], s.listed[:0]
	for _, token := range allowed {
		s.own = append(s.own, token.ID)
		s.listed = append(s.listed, token.Next)
	}
	if s.at.Accepts() {
		s.own = append(s.own, tokenizer.EOS)
		s.listed = append(s.listed, s.at)
	}
	s.ids = s.own
	return nil
}

// distribution fills probs and total of the candidates.
func (s *sampler) distribution() {
	s.probs = slices.Grow(s.probs[:0], len(s.ids))[:len(s.ids)]
	if s.weights.Policy != nil {
		s.learnedDistribution()
		s.total = sum(s.probs)
		return
	}
	ctx := context(s.weights, s.text)
	if len(s.ids) == len(s.model.all) {
		for i, salt := range s.model.salts {
			s.probs[i] = s.exp[level(ctx, salt)]
		}
	} else {
		for i, id := range s.ids {
			s.probs[i] = s.exp[level(ctx, s.model.salt(id))]
		}
	}
	// The end of sequence, where it is a candidate, is the last one.
	if last := len(s.ids) - 1; s.ids[last] == tokenizer.EOS {
		s.probs[last] *= s.eosExp
	}
	if s.temperature() < coldTemperature {
		s.coldDistribution(ctx)
	}
	s.total = sum(s.probs)
}

// coldTemperature is below which exponentials of logits may overflow unless they are taken
// relative to the largest one.
const coldTemperature = 0.05

// coldDistribution redoes probs relative to the likeliest candidate.
func (s *sampler) coldDistribution(ctx uint64) {
	t := s.temperature()
	for i, id := range s.ids {
		s.probs[i] = s.logit(ctx, id) / t
	}
	top := slices.Max(s.probs)
	for i, logit := range s.probs {
		s.probs[i] = math.Exp(logit - top)
	}
}

// logit is the model's own.
func (s *sampler) logit(ctx uint64, id tokenizer.ID) float64 {
	l := s.model.logits[level(ctx, s.model.salt(id))]
	if id == tokenizer.EOS {
		l += s.model.eosBias
	}
	return l
}

// truncate zeroes the candidates that top-k and top-p exclude.
func (s *sampler) truncate() {
	p := s.params
	if p.TopK == 0 && p.TopP >= 1 {
		return
	}
	if p.TopK > 0 && p.TopK < len(s.ids) {
		least := s.kth(p.TopK) // candidates that tie with the k-th stay, as in vLLM
		for i, w := range s.probs {
			if w < least {
				s.probs[i] = 0
			}
		}
	}
	if p.TopP < 1 {
		s.nucleus()
	}
	s.total = sum(s.probs)
}

// kth is the k-th largest probability, or the smallest positive one where there are fewer.
func (s *sampler) kth(k int) float64 {
	ranked := s.ranked()
	return s.probs[ranked[min(k, len(ranked))-1]]
}

// nucleus keeps the likeliest candidates up to and including the one that reaches top-p.
func (s *sampler) nucleus() {
	enough := s.params.TopP * sum(s.probs)
	mass := 0.0
	for _, i := range s.ranked() {
		if mass >= enough {
			s.probs[i] = 0
		} else {
			mass += s.probs[i]
		}
	}
}

// ranked is the candidates from the likeliest to the least likely, equal ones in order of index and those that cannot
// be sampled not at all. Only one ranking is in use at a time.
func (s *sampler) ranked() []int32 {
	s.order = s.order[:0]
	for i, p := range s.probs {
		if p > 0 {
			s.order = append(s.order, int32(i))
		}
	}
	slices.SortFunc(s.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.probs[b], s.probs[a]), cmp.Compare(a, b))
	})
	return s.order
}

func (s *sampler) draw() int {
	u := s.rng.Float64() * s.total
	last := 0
	for i, p := range s.probs {
		if p == 0 {
			continue
		}
		last = i
		if u -= p; u < 0 {
			return i
		}
	}
	return last // rounding left a remainder
}

// take appends the picked candidate to the text.
func (s *sampler) take(i int) {
	s.text = append(s.text, s.ids[i])
	s.after = stat.Mix(s.after ^ uint64(s.ids[i]+1))
	if s.params.Constraint != nil {
		s.at = s.listed[i]
	}
}

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}

// argmax is the first of the largest values.
func argmax(values []float64) int {
	best := 0
	for i, v := range values {
		if v > values[best] {
			best = i
		}
	}
	return best
}
