package external

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Mail is where programs put their calls, and find answers.
type Mail interface {
	// Look tells how a game stands, and offers it to programs. It is called again within LookEvery.
	// From then on Look and Answer of earlier attempts are refused as Fenced: they may not know what has been saved.
	Look(ctx context.Context, at Attempt, scenario []byte) (Standing, error)
	// Alive says that the game is played, when nobody looks because its prompts are asked.
	Alive(ctx context.Context, ref rollout.EpisodeRef) error
	// Await calls look with nil, and again whenever something may have changed, with how the game stands where that was
	// told, and with nil at least every LookEvery.
	Await(ctx context.Context, ref rollout.EpisodeRef, look func(told *Standing) (more bool, err error)) error
	// News are that a call is answered, for who waits for it: they may be told before Answer, once the answer is kept.
	News(ref rollout.EpisodeRef, lease string, call Call, a Answer) rollout.News
	// Answer answers a call, notes how many calls of its agent its program has had answered, and with an Ending that the
	// game is over. It does nothing when another program has the game. It tells how the game stands then.
	Answer(ctx context.Context, at Attempt, lease string, call Call, place int, a Answer, over *Ending) (Standing, error)
}

// Attempt is one that plays a game.
type Attempt struct {
	rollout.EpisodeRef
	Number int // later ones have higher ones
}

// LookEvery is the longest time between two looks of a game, and of a call that waits: it says that its program lives.
const LookEvery = 2 * time.Second

// aliveEvery is how often a game says that it is played, while engines answer. It takes several times as long until it
// counts as absent.
const aliveEvery = 4 * time.Second

// leastLease is longer, so that a program that waits for an answer keeps its game.
const leastLease = 3 * time.Second

// Standing is how a game stands in the mail.
type Standing struct {
	Now    int64          // of the mail's clock, in ms
	Posted int64          // how many calls were: what is told of an earlier one is older
	Lease  string         // of the program that has the game, or had it last
	Leased bool           // it has the game
	Places map[string]int // how many of each agent's calls it has had answered
	Calls  []Call         // that wait, the oldest first
	Over   *Ending
}

// Call is a call of a program.
type Call struct {
	Agent  string             `json:"agent"`
	Hash   string             `json:"hash"` // of what was asked
	Prompt string             `json:"prompt,omitempty"`
	Chat   []rollout.Message  `json:"messages,omitempty"`
	Tools  json.RawMessage    `json:"tools,omitempty"`
	Hold   rollout.Constraint `json:"constraint,omitzero"`
	Most   int                `json:"max_tokens,omitempty"`
	Stop   []string           `json:"stop,omitempty"`
	Policy string             `json:"policy,omitempty"` // that must answer; empty: the learner
	End    *Ending            `json:"end,omitempty"`    // the game is over: it is the last call
	Posted bool               `json:"-"`                // it was before: it is sent whole where the mail has lost it
	From   string             `json:"-"`                // channel of who posted it
	Told   bool               `json:"-"`                // News of its answer are told
}

// ID names a call within its program's lease: one that is sent again is the same call.
func (c *Call) ID() string { return c.Agent + "/" + c.Hash }

// Ending is how a program ends its game.
type Ending struct {
	Rewards   map[string]float64 `json:"rewards,omitempty"`
	Truncated bool               `json:"truncated,omitempty"`
	Failed    string             `json:"failed,omitempty"` // why it failed; empty: it did not
	Hash      string             `json:"hash,omitempty"`   // of the call
}

// Answer is what a call is answered.
type Answer struct {
	Text   string `json:"text,omitempty"`
	Finish string `json:"finish,omitempty"`
	Prompt int    `json:"prompt,omitempty"` // tokens
	Tokens int    `json:"tokens,omitempty"`
	Fault  string `json:"fault,omitempty"` // why it is not answered: the program's fault
}
