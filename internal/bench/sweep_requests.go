package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// sweepRequest is a request, and how long after the first it comes.
type sweepRequest struct {
	after time.Duration
	rollout.Request
}

// requests is what every setting of one round is asked: the same for all.
func (c SweepConfig) requests(model string, round int) []sweepRequest {
	rng := rand.New(rand.NewPCG(c.Seed, uint64(round)+2))
	var all []sweepRequest
	at := 0.0
	for i := range c.Requests {
		if i > 0 {
			at += rng.ExpFloat64() * float64(c.Gap) / c.Speed
		}
		tokens := c.OutputTokens[i%len(c.OutputTokens)]
		all = append(all, sweepRequest{time.Duration(at), rollout.Request{
			ID:         fmt.Sprintf("sweep-%d-%d", round, i),
			Episode:    rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: runName, Seq: rollout.GroupSeq(i)}},
			Model:      model,
			Prompt:     sweepPrompt(c.PromptWords, i),
			Seed:       int64(round*c.Requests + i),
			Timeout:    rollout.Duration(c.Timeout),
			Constraint: c.constraint(tokens),
			Sampling:   rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: tokens},
			// An estimate, for the order shortest first: what most answers will have.
			OutputTokens: tokens,
		}})
	}
	return all
}

// constraint forbids an answer to end before it has all its tokens: a token of digits has at most three of them.
// Answers of different lengths would be most of what differs between trials.
func (c SweepConfig) constraint(tokens int) rollout.Constraint {
	if c.FreeLength {
		return rollout.Constraint{}
	}
	return rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: fmt.Sprintf("[0-9]{%d,}", 3*tokens)}
}

// sweepPrompt asks for something that goes on for as long as it may.
func sweepPrompt(words, i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Request %d. Write digits without end, and nothing else:", i)
	for n := range words {
		fmt.Fprintf(&b, " %d", i*1000+n)
	}
	return b.String()
}
