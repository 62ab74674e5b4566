package pseudolm

import (
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// Finish says why a completion ended.
type Finish string

// The ends that sampling can come to.
const (
	FinishStop   Finish = "stop"
	FinishLength Finish = "length"
)

// Completion is a sampled text. Tokens and Logprobs have one entry per token, the token that stopped the completion
// included.
type Completion struct {
	Tokens   []tokenizer.ID
	Logprobs []float64
	Text     string // without the stop token or string, unless it was to be included
	Finish   Finish
	Stopped  any // the stop string; nil for the end of sequence
}

// Complete samples one completion of the prompt. The same arguments give the same result. It
// fails only when the constraint is too complex to follow.
func (m *Model) Complete(w Weights, prompt []tokenizer.ID, p Params) (Completion, error) {
	s := newSampler(m, w, prompt, &p)
	c := Completion{Finish: FinishLength}
	var text strings.Builder
	for len(c.Tokens) < p.MaxTokens {
		i, err := s.step()
		if err != nil {
			return Completion{}, err
		}
		id := s.ids[i]
		c.Tokens, c.Logprobs = append(c.Tokens, id), append(c.Logprobs, s.logprob(i))
		s.take(i)
		if id == tokenizer.EOS && !p.IgnoreEOS {
			c.Finish = FinishStop
			break
		}
		before := text.Len()
		text.WriteString(m.visible(id))
		if stop, end := stopString(text.String(), before, &p); stop != "" {
			c.Text, c.Finish, c.Stopped = text.String()[:end], FinishStop, stop
			return c, nil
		}
	}
	c.Text = text.String()
	return c, nil
}

// Score is the log-probabilities of tokens, from the second on: each given those before it, at temperature 1.
func (m *Model) Score(w Weights, tokens []tokenizer.ID) []float64 {
	p := DefaultParams()
	p.Temperature, p.Constraint = 1, nil
	s := newSampler(m, w, nil, &p)
	logprobs := make([]float64, 0, max(0, len(tokens)-1))
	for i := 1; i < len(tokens); i++ {
		s.text, s.features = tokens[:i], nil
		_ = s.candidates() // it fails under a constraint only
		s.distribution()
		logprob := math.Inf(-1) // of a control token
		if at := slices.Index(s.ids, tokens[i]); at >= 0 {
			logprob = s.logprob(at)
		}
		logprobs = append(logprobs, logprob)
	}
	return logprobs
}

// visible is what a token adds to the text.
func (m *Model) visible(id tokenizer.ID) string {
	if tokenizer.IsControl(id) {
		return ""
	}
	piece, _ := m.tokens.Piece(id)
	return piece
}

// stopString finds the first stop string that the latest token completed, which begins behind before, and where the
// text must be cut.
func stopString(text string, before int, p *Params) (stop string, end int) {
	for _, candidate := range p.Stop {
		from := max(0, before-len(candidate)+1)
		if i := strings.Index(text[from:], candidate); candidate != "" && i >= 0 {
			return candidate, from + i
		}
	}
	return "", 0
}

// logprob is a candidate's log-probability in the distribution sampled from: normalised over what constraint and
// truncation left.
func (s *sampler) logprob(i int) float64 {
	return math.Log(s.probs[i]) - math.Log(s.total) // minus infinity, where it cannot be sampled
}
