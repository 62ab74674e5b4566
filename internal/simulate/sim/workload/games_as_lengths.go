// Package workload is what a simulated run plays: games by their lengths, never their text. They come from
// distributions, from a recorded run, or from real games among bots.
//
// Start reading at Games.
package workload

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// Games is where the games of a run come from. The game of a reference is always the same, whatever was asked before,
// so that runs with other engines or another depth play the same games. What is returned may be shared: nobody
// changes it.
type Games interface {
	Game(ref rollout.EpisodeRef) Game
	// ZeroVariance reports whether the rewards of a group's games are all equal.
	ZeroVariance(ref rollout.GroupRef) bool
}

// Game is one episode as lengths: its phases in order.
type Game struct {
	Phases []Phase
	Agents int // that have a trajectory in the end
	// Fails is why the game comes to nothing, for good, after its last phase; empty: it is finished then.
	Fails rollout.Code
}

// Phase is one round of decisions, made at the same time. It may have none.
type Phase struct {
	Turns []Turn
	Env   time.Duration // in the environment, before and after the turns, together
}

// Turn is one decision of one agent.
type Turn struct {
	Agent          int // from 0
	Prompt, Output int // tokens
	// Policy names the fixed policy that decides; empty: the learner.
	Policy string
	// Shared is the leading prompt tokens that other turns have, too, by what they are the same as: of a group's games,
	// of a game's earlier prompts. From short to long.
	Shared []Prefix
}

// Prefix is a run of leading tokens that all turns with the same Key begin with.
type Prefix = enginemodel.Prefix
