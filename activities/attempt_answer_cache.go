package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync/atomic"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// answerCache is one attempt's policy: it keeps every answer as it arrives, and does not ask again for those that an
// earlier attempt was given in the phase that it left unfinished.
type answerCache struct {
	policy   episode.Policy
	journal  buffer.Journal
	answers  map[string]buffer.Answer // of earlier attempts, by agent
	resumed  *int                     // the phase that is asked for again; nil in a first attempt
	limit    rollout.Duration         // of a phase; 0: none
	repeated atomic.Int64
}

// newAnswerCache makes the cache of an attempt that goes on from a journal.
func newAnswerCache(policy episode.Policy, journal buffer.Journal, attempt int) *answerCache {
	m := &answerCache{policy: policy, journal: journal}
	if attempt == 1 {
		return m
	}
	phase := 0
	if from := journal.Checkpoint(); from != nil {
		phase = from.PhaseIndex
	}
	m.resumed, m.answers = &phase, journal.Answers()
	return m
}

// Complete answers from the cache, or asks. What is asked for again in a resumed phase is counted as repeated,
// although the attempt before may not have come as far: it died without telling.
func (m *answerCache) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	turn, _, err := rollout.ParseRequestID(req.ID)
	if err != nil {
		return rollout.Completion{}, err
	}
	key := requestKey(turn, req)
	if a, ok := m.answers[req.Agent]; ok && a.Key == key {
		return a.Completion, nil
	}
	c, err := m.policy.Complete(ctx, req)
	if err != nil {
		return c, err
	}
	if m.resumed != nil && turn.Phase == *m.resumed {
		m.repeated.Add(int64(len(c.TokenIDs)))
	}
	// An answer that was too late for its phase would be too late for the next attempt's, which asks for another one.
	if m.limit > 0 && c.Timing.ExecSec > m.limit.Seconds() {
		return c, nil
	}
	// The answer is kept even when another one of its phase has failed. If it cannot be kept, it is asked for again at
	// worst. The checkpoint after the phase is what must be saved.
	_ = m.journal.Answer(req.Agent, buffer.Answer{Key: key, Completion: c})
	return c, nil
}

// requestKey is equal for requests that ask the same of the same weights. An attempt taken for dead may have played on
// to another board: its answers have other keys, and are not used.
func requestKey(turn rollout.TurnID, req rollout.Request) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%v\x00%v\x00%s%q%s", turn, req.Model, req.Constraint, req.Sampling, req.Prompt,
		req.Messages, req.Tools)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
