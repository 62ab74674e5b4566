package enginesim

import (
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// generation is one sampled completion on its way through the engine. Its text is known from the
// start; the loop owns the rest until the call's end is told.
type generation struct {
	pseudolm.Completion
	prompt  []tokenizer.ID
	request batch.Request
	call    *call
	index   int // of the choice

	id        int64
	cached    int  // prompt tokens
	tokens    int  // generated, when it is over
	ran       bool // was admitted
	aborted   bool
	submitted time.Duration
	finished  time.Duration
}

// call is one HTTP request's generations.
type call struct {
	generations []*generation
	pending     int
	failed      error
	done        chan struct{} // closed when nothing is pending
}

func newCall(generations []*generation) *call {
	c := &call{generations: generations, pending: len(generations), done: make(chan struct{})}
	for _, g := range generations {
		g.call = c
	}
	return c
}

// end notes that a generation is over; reason is why the call as a whole cannot be answered.
func (c *call) end(reason error) {
	if reason != nil {
		c.failed = reason
	}
	if c.pending--; c.pending == 0 {
		close(c.done)
	}
}

// said is the text of the tokens that were generated.
func (g *generation) said() string {
	text := g.Text
	if g.tokens < len(g.Offsets) {
		text = text[:min(g.Offsets[g.tokens], len(text))]
	}
	return valid(text)
}

// finishReason is what vLLM calls the generation's end.
func (g *generation) finishReason() string {
	if g.aborted {
		return "abort"
	}
	return string(g.Finish)
}

// stopReason is the stop string that ended it; nil: none did.
func (g *generation) stopReason() any {
	if g.aborted {
		return nil
	}
	return g.Stopped
}
