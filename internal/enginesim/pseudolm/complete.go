package pseudolm

import (
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/enginesim/tokenizer"
)

// Finish says why a completion ended.
type Finish string

// The ends that sampling can come to.
const (
	FinishStop   Finish = "stop"
	FinishLength Finish = "length"
)

// Completion is a sampled text. Tokens, Offsets and, when asked for, Logprobs and Top have one
// entry per token, the token that stopped the completion included.
type Completion struct {
	Tokens   []tokenizer.ID
	Offsets  []int // where in Text each token's piece begins, in bytes
	Logprobs []float64
	Top      [][]Ranked // the likeliest alternatives, likeliest first
	Text     string     // without the stop token or string, unless it was to be included
	Finish   Finish
	// Stopped is the stop string or the stop token (a string or a tokenizer.ID); nil for the
	// end of sequence.
	Stopped any
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
		if i == noCandidate { // allowed tokens and constraint have nothing in common
			c.Finish = FinishStop
			break
		}
		c.record(s, i, text.Len())
		id := s.ids[i]
		s.take(i)
		if p.stops(id) {
			c.stopAt(id, &p)
			break
		}
		text.WriteString(m.visible(id, p.KeepControl))
		if stop, end := stopString(text.String(), c.Offsets, &p); stop != "" {
			c.Text, c.Finish, c.Stopped = text.String()[:end], FinishStop, stop
			return c, nil
		}
	}
	c.Text = text.String()
	return c, nil
}

// stopAt ends the completion at a stop token; the end of sequence goes unnamed, as in vLLM.
func (c *Completion) stopAt(id tokenizer.ID, p *Params) {
	c.Finish = FinishStop
	if id != tokenizer.EOS || p.IgnoreEOS {
		c.Stopped = id
	}
}

// visible is what a token adds to the text.
func (m *Model) visible(id tokenizer.ID, keepControl bool) string {
	if tokenizer.IsControl(id) && !keepControl {
		return ""
	}
	piece, _ := m.tokens.Piece(id)
	return piece
}

// stopString finds the first stop string that the latest token completed, and where the text
// must be cut.
func stopString(text string, offsets []int, p *Params) (stop string, end int) {
	if len(p.Stop) == 0 || len(offsets) <= p.MinTokens {
		return "", 0
	}
	added := len(text) - offsets[len(offsets)-1]
	for _, candidate := range p.Stop {
		from := max(0, len(text)-added-len(candidate)+1)
		if i := strings.Index(text[from:], candidate); candidate != "" && i >= 0 {
			end = from + i
			if p.IncludeStop {
				end += len(candidate)
			}
			return candidate, end
		}
	}
	return "", 0
}

// record notes candidate i as the next token.
func (c *Completion) record(s *sampler, i, offset int) {
	c.Tokens = append(c.Tokens, s.ids[i])
	c.Offsets = append(c.Offsets, offset)
	if s.params.Logprobs == NoLogprobs {
		return
	}
	logprob := s.logprobs()
	c.Logprobs = append(c.Logprobs, logprob(i))
	if top := s.top(logprob); top != nil {
		c.Top = append(c.Top, top)
	}
}

// logprobs returns the function that gives a candidate's log-probability in the distribution
// sampled from: normalised over what constraint and truncation left.
func (s *sampler) logprobs() func(int) float64 {
	if s.params.RawLogprobs {
		return s.rawLogprobs()
	}
	norm := math.Log(s.total)
	return func(i int) float64 {
		if s.probs[i] == 0 {
			return math.Inf(-1)
		}
		return math.Log(s.probs[i]) - norm
	}
}

// rawLogprobs is over the model's own logits of the candidates.
func (s *sampler) rawLogprobs() func(int) float64 {
	ctx := context(s.weights, s.text)
	total := 0.0
	for _, id := range s.ids {
		total += math.Exp(s.logit(ctx, id))
	}
	norm := math.Log(total)
	return func(i int) float64 { return s.logit(ctx, s.ids[i]) - norm }
}

// top lists the likeliest candidates that can still be sampled.
func (s *sampler) top(logprob func(int) float64) []Ranked {
	if s.params.Logprobs <= 0 {
		return nil
	}
	r := s.ranked()
	ranked := make([]Ranked, 0, min(s.params.Logprobs, len(s.ids)))
	for range cap(ranked) {
		i, ok := r.next()
		if !ok {
			break
		}
		ranked = append(ranked, Ranked{ID: s.ids[i], Logprob: logprob(i)})
	}
	return ranked
}

// Scored is a token of a given text with its log-probability, its rank among all tokens, and
// the likeliest alternatives.
type Scored struct {
	ID      tokenizer.ID
	Logprob float64
	Rank    int
	Top     []Ranked
}

// Score tells how likely each token of a text is at temperature 1, with top alternatives each.
// The first has no context to be predicted from: its entry says nothing.
func (m *Model) Score(w Weights, text []tokenizer.ID, top int) []Scored {
	p := DefaultParams()
	p.Logprobs = top
	s := newSampler(m, w, nil, &p)
	scores := make([]Scored, len(text))
	for n, id := range text {
		scores[n] = Scored{ID: id, Logprob: math.Inf(-1), Rank: len(m.all) + 1}
		if n == 0 {
			continue
		}
		s.text = text[:n]
		s.ids = m.all
		s.distribution()
		logprob := s.logprobs()
		scores[n].Top = s.top(logprob)
		if i, ok := slices.BinarySearch(m.all, id); ok {
			scores[n].Logprob = logprob(i)
			scores[n].Rank = 1
			for _, other := range s.probs {
				if other > s.probs[i] {
					scores[n].Rank++
				}
			}
		}
	}
	return scores
}
