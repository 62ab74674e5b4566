// Package episode plays one episode of any environment with a policy and records the
// trajectories. It owns the loop: phase after phase, one request per agent that must act, all
// agents of a phase at once; a checkpoint after each phase, so that another process can go on
// where this one died. It knows neither games nor engines: both are interfaces declared here.
// Start reading at Environment, then Play.
package episode

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Environment makes games. Its methods are pure: the same arguments give the same game on every machine. A call of
// an environment or a game that takes longer than a phase may is left behind (see Watch), and one that panics ends
// its game.
type Environment interface {
	// Scenario is the start of a group's games, drawn from seed. It is opaque to all others,
	// and small: tens of kilobytes at most.
	Scenario(seed int64) ([]byte, error)
	// Start begins a game from a scenario. Games of one scenario start identical; sample is the
	// number of the game in its group, for whatever the environment itself draws by chance.
	Start(scenario []byte, seed int64, sample int) (Game, error)
	// Resume continues a game from its checkpoint.
	Resume(checkpoint []byte) (Game, error)
}

// Warmer is an Environment that can have a policy play how games begin. Where Warms, a scenario is where a warm-up has
// come to, made by WarmUp and Fork; Scenario is then not asked for.
type Warmer interface {
	Environment
	// Warms reports whether scenarios need a policy.
	Warms() bool
	// WarmUp begins the one game that a policy plays before a group's games fork. It is Done where they do. Its
	// checkpoints go through Resume, like every game's; it has no Result.
	WarmUp(seed int64) (Game, error)
	// Fork makes a scenario of the last checkpoint of a warm-up.
	Fork(checkpoint []byte) ([]byte, error)
}

// Ordered is an Environment whose scenarios have an order of their own, such as the rows of a dataset: a run's n-th
// group begins with the n-th. Scenario is then asked for only where there is no run.
type Ordered interface {
	Environment
	ScenarioOf(group rollout.GroupSeq) ([]byte, error)
}

// Opposed is an Environment that has fixed policies play some of its agents.
type Opposed interface {
	Environment
	// Policies names them.
	Policies() []string
}

// Game is one game in progress. It is used by one goroutine at a time. One that holds something, such as a connection,
// is an io.Closer, and closed when its attempt is over.
type Game interface {
	// Phase names the phase to be played next. Done tells that none is left.
	Phase() string
	Done() bool
	// Prompts asks the learners who must act in this phase for one decision each, in a fixed order.
	// A phase may need none (say, when only bots move).
	Prompts() ([]Prompt, error)
	// Act applies the learners' answers, by agent, to the phase, and moves to the next one.
	// A bad answer is the game's to judge and never an error.
	Act(answers map[string]string) (Outcome, error)
	// Checkpoint is the state between two phases.
	Checkpoint() ([]byte, error)
	// Result is the end of the game; only when Done.
	Result() (Result, error)
}

// Seated is a Game whose players can be compared by how they ended.
type Seated interface {
	Game
	// Seats is who played where, and their scores; only when Done. The player of a learner is empty, that of a fixed
	// policy "policy:NAME".
	Seats() []rollout.Seat
}

// Awaited is a Game in which somebody outside decides when a phase begins, and what is asked in it.
type Awaited interface {
	Game
	// Await returns before each phase, when it can be played or the game is over. taken is for how long the game was
	// somebody's to go on with, which counts as the environment's time; it returns when more than left was taken. It is
	// refused as Fenced when a later attempt plays the game.
	Await(ctx context.Context, ref rollout.EpisodeRef, attempt int, left time.Duration) (taken time.Duration, err error)
	// Turns is how many of an agent's turns still belong to the game.
	Turns(agent string) int
	// Answered tells of each prompt, before Act, what it was answered, or with why that no engine accepts it. A prompt
	// that is not accepted is no turn.
	Answered(agent string, c rollout.Completion, why error)
	// Asking runs while the prompts of a phase are asked, until ctx is done: who waits for answers shall know of it.
	Asking(ctx context.Context)
}

// Prompt asks one agent for one decision.
type Prompt struct {
	Agent string
	Text  string
	// Messages are asked instead of Text where there are any, in the model's chat template, which its engine has.
	Messages   []rollout.Message
	Tools      json.RawMessage // that the chat template tells the model of
	Constraint rollout.Constraint
	MaxTokens  int      // 0: the run's own limit
	Stop       []string // strings that end the answer
	// Policy names the fixed policy that must answer; empty is the learner. What a fixed policy answers is no turn
	// of a trajectory.
	Policy string
}

// Outcome is what one phase brought.
type Outcome struct {
	Rewards map[string]float64 // by agent, for this turn alone; nil when only the end is rewarded
	Counts  map[string]int64   // the environment's own counters, such as orders by validity
	News    []rollout.News     // told as soon as the phase is kept
}

// Result is how a game ended.
type Result struct {
	Rewards   map[string]float64 // by learner: the reward of its whole trajectory
	Truncated bool               // ended at the horizon
	Counts    map[string]int64
}

var agentName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// IsAgentName reports whether an agent that is named elsewhere may be called so: the name is part of ids and paths.
func IsAgentName(name string) bool { return agentName.MatchString(name) }
