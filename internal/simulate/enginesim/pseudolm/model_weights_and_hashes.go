// Package pseudolm is a language model without weights: a fixed, reproducible distribution of
// the next token given the adapter and the last few tokens. It exists so that a
// simulated engine samples as a real one does (temperature, top-k, top-p, penalties, constraints,
// stop conditions) and reports log-probabilities that are true of what it sampled.
//
// The logit of a token is a hash of (weights, context, token), mapped onto 256 quantiles of a
// normal distribution. The text it writes means nothing; its statistics are those of sampling.
// When tokens come out, and at what cost, is the engine's business, not this package's.
//
// Start reading at Model.Complete.
package pseudolm

import (
	"hash/fnv"
	"math"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

const (
	levels = 256
	// logitSpread is the standard deviation of logits: at temperature 1 a few hundred tokens share the mass.
	logitSpread = 2
	// meanTokens is about how long unconstrained text gets at temperature 1.
	meanTokens = 48
	// contextTokens is how many tokens of the text so far decide the next distribution.
	contextTokens = 8
)

// Weights identifies a distribution: a base model with or without an adapter.
type Weights struct {
	hash   uint64
	Policy *Policy // decides instead of the hash; nil: none does
}

// WeightsOf derives weights from what identifies them, such as model, adapter name and path.
func WeightsOf(parts ...string) Weights {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return Weights{hash: stat.Mix(h.Sum64())}
}

// Model is immutable and safe for concurrent use.
type Model struct {
	tokens  *tokenizer.Tokenizer
	all     []tokenizer.ID // what may be sampled: the pieces, then the end of sequence
	salts   []uint64       // of each of them
	logits  [levels]float64
	eosBias float64
}

// New makes a model over the vocabulary of t.
func New(t *tokenizer.Tokenizer) *Model {
	m := &Model{tokens: t, eosBias: math.Log(float64(t.Ordinary()) / meanTokens)}
	for id := range tokenizer.ID(t.Ordinary()) {
		m.all = append(m.all, id)
	}
	m.all = append(m.all, tokenizer.EOS)
	for _, id := range m.all {
		m.salts = append(m.salts, stat.Mix(uint64(id)+1))
	}
	for i := range m.logits {
		quantile := (float64(i) + 0.5) / levels
		m.logits[i] = logitSpread * math.Sqrt2 * math.Erfinv(2*quantile-1)
	}
	return m
}

// context hashes the weights and the end of the text.
func context(w Weights, text []tokenizer.ID) uint64 {
	h := w.hash
	for _, id := range text[max(0, len(text)-contextTokens):] {
		h = stat.Mix(h ^ uint64(id))
	}
	return h
}

// salt is the number that stands for a token in hashes.
func (m *Model) salt(id tokenizer.ID) uint64 {
	if id == tokenizer.EOS {
		return m.salts[len(m.salts)-1]
	}
	return m.salts[id]
}

// level is the quantile of a token's logit in a context. Both arguments are well mixed.
func level(context, salt uint64) uint8 {
	return uint8((context ^ salt) * 0x9E3779B97F4A7C15 >> 56)
}
