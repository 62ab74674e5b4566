package buffer_test

import (
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// badRows spoil a group, each in one way.
var badRows = []func(g *rollout.Group){
	func(g *rollout.Group) { g.Trajectories = nil },
	func(g *rollout.Group) { g.Trajectories[1].ID = g.Trajectories[0].ID },
	func(g *rollout.Group) { g.Trajectories[0].Agent = "" },
	func(g *rollout.Group) { g.Trajectories[0].Reward = math.NaN() },
	func(g *rollout.Group) { g.Trajectories[0].Reward = -1e200 }, // whose square no step record could say
	func(g *rollout.Group) { g.Trajectories[0].Advantage = math.Inf(1) },
	func(g *rollout.Group) { g.Trajectories[3].Turns[1].Logprobs[0] = float32(math.Inf(-1)) },
	func(g *rollout.Group) { g.Trajectories[3].Turns[1].Logprobs = g.Trajectories[3].Turns[1].Logprobs[1:] },
	func(g *rollout.Group) { g.Trajectories[2].Turns[0].PromptTokenIDs = nil },
	func(g *rollout.Group) { g.Trajectories[2].Turns[0].Reward = math.NaN() },
	func(g *rollout.Group) { g.Trajectories[2].Turns[0].PolicyVersion = g.MinVersion - 1 },
	func(g *rollout.Group) { g.EnvSec[0] = math.NaN() },
}
