package faultsuite

import (
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/diagnosis/requestsim"
)

// faultStep is the step at which most faults happen.
const faultStep = 12

// slotsWorld is a healthy run on engines that are as fast with all of their slots in use as with one: they need three
// quarters of the trainer's time for a batch. Scale multiplies groups and engines.
func slotsWorld(scale int) requestsim.World {
	return requestsim.World{
		Name: "run", Steps: 400, Until: 36, Depth: 2, Groups: 8 * scale, Games: 4,
		MaxStaleness: 2, OnStale: runspec.DropStale,
		Turns: 8, TurnsCV: 0.2, Agents: 3, Prompt: 4000, Output: 73, TokensCV: 0.3, Shared: 0.7, Env: 0.2,
		Engines: 4 * scale, Engine: requestsim.Engine{PromptSec: 0.0025, OutputSec: 0.055}, Slots: 12,
		Load: 3, Ref: 45, Train: 95, Publish: 7, Noise: requestsim.Noise{CV: 0.03},
		AdapterLoad: 1, Launch: 0.1, Commit: 0.2, Claim: 0.05, Deliver: 0.05, SampleEvery: 10,
	}
}

// sharedWorld is the same on engines whose requests slow each other down, as real ones' do: with a batch in flight
// they give nearly all that they can, and have free slots.
func sharedWorld(scale int) requestsim.World {
	w := slotsWorld(scale)
	w.Slots = 512
	w.Engine = requestsim.Engine{PromptSec: 0.0007, OutputSec: 0.0157, PerRequest: 0.29}
	return w
}

// splitWorld is the same on engines that work on prompts and outputs apart.
func splitWorld(scale int) requestsim.World {
	w := sharedWorld(scale)
	w.Engine = requestsim.Engine{PromptSec: 0.0004, OutputSec: 0.03, PerRequest: 0.20, Split: true}
	return w
}

// latencyWorld is few long games, on engines that are hardly used: a batch takes a little less than depth steps.
func latencyWorld(scale int) requestsim.World {
	w := slotsWorld(scale)
	w.Groups, w.Games, w.Turns, w.TurnsCV, w.TokensCV = 2*scale, 3, 40, 0.05, 0.15
	w.Slots = 24
	w.Engine = requestsim.Engine{PromptSec: 0.0011, OutputSec: 0.03} // about 3.5 s
	w.Env = 1
	return w
}

// workersWorld has workers whose places are most of what the games need.
func workersWorld(scale int) requestsim.World {
	w := slotsWorld(scale)
	w.Slots = 48
	w.Places = 20 * scale
	return w
}

// with is a world with a fault at faultStep.
func with(w requestsim.World, do func(*requestsim.Control)) requestsim.World {
	return withAt(w, faultStep, do)
}

func withAt(w requestsim.World, step int, do func(*requestsim.Control)) requestsim.World {
	w.Faults = append(w.Faults, requestsim.Fault{Step: step, Do: do})
	return w
}

// deep is a world with another depth.
func deep(w requestsim.World, depth int) requestsim.World {
	w.Depth, w.MaxStaleness = depth, depth
	return w
}

func changed(w requestsim.World, change func(*requestsim.World)) requestsim.World {
	change(&w)
	return w
}
