package enginesim

import (
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// generation is one sampled completion on its way through the engine. Its text is known from the
// start; the loop owns the rest until its end is told.
type generation struct {
	pseudolm.Completion
	prompt  []tokenizer.ID
	request batch.Request
	failed  error         // why it cannot be answered
	done    chan struct{} // closed when it is over

	id        int64
	cached    int  // prompt tokens
	ran       bool // was admitted
	aborted   bool
	submitted time.Duration
	finished  time.Duration
}

// finishReason is what vLLM calls the generation's end.
func (g *generation) finishReason() string {
	if g.aborted {
		return "abort"
	}
	return string(g.Finish)
}
