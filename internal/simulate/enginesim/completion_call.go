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
	tokens    int  // generated so far
	ran       bool // was admitted
	aborted   bool
	submitted time.Duration
	finished  time.Duration
}

// call is one HTTP request's generations.
type call struct {
	id          string // of the response; that of a prompt's requests is ID-INDEX
	generations []*generation
	pending     int
	failed      error
	done        chan struct{} // closed when nothing is pending
	updates     chan update   // for streams; room for every update, so that the loop never waits
}

// update says how far a generation has come.
type update struct {
	generation *generation
	tokens     int
	ended      bool
}

func newCall(id string, generations []*generation, streams bool) *call {
	c := &call{id: id, generations: generations, pending: len(generations), done: make(chan struct{})}
	room := 0
	for _, g := range generations {
		g.call = c
		g.request.Streams = streams
		room += g.request.Output + 1
	}
	if streams {
		c.updates = make(chan update, room)
	}
	return c
}

// progress passes on that a generation has a new token.
func (c *call) progress(g *generation) {
	if c.updates != nil {
		c.updates <- update{generation: g, tokens: g.tokens}
	}
}

// end notes that a generation is over; reason is why the call as a whole cannot be answered.
func (c *call) end(g *generation, reason error) {
	if c.updates != nil {
		c.updates <- update{generation: g, tokens: g.tokens, ended: true}
	}
	if reason != nil {
		c.failed = reason
	}
	if c.pending--; c.pending == 0 {
		close(c.done)
	}
}

// textTo is the text of the first n tokens.
func (g *generation) textTo(n int) string {
	if n >= len(g.Offsets) {
		return g.Text
	}
	return g.Text[:min(g.Offsets[n], len(g.Text))]
}

// finishReason is what vLLM calls the generation's end.
func (g *generation) finishReason() string {
	if g.aborted {
		return "abort"
	}
	return string(g.Finish)
}
