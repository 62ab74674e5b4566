// Package requestsim is a second simulator of a run, request by request, that diagnosis is tried against. It shares no
// code with package sim, with the service's own dispatcher or with the replay of a diagnosis, so that what all of these
// believe in common is not taken for true. Engines are processors that their requests share; everything else is as
// plain as it can be. It leaves a run's record as the service would write it.
//
// Start reading at World and Play.
package requestsim

import (
	"math"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// World is everything that a run is made of. Faults change it while the run goes on: what is read again and again,
// such as tokens or phases, has its new value from then on. Times are in seconds.
type World struct {
	Name string
	Seed uint64

	// What the spec says.
	Steps, Depth, Groups, Games int
	Until                       int // steps after which nobody looks any more, while the run goes on; 0: Steps
	Oversample                  int // games started beyond Games; the slowest are cancelled
	MaxStaleness                int
	OnStale                     runspec.OnStale
	ZeroVariance                runspec.ZeroVariance
	OwnLimit                    int // requests in flight per engine that the run allows itself; 0: as many as engines do
	MaxBytes                    int64

	// What the games are.
	Turns      float64 // of a game, one after another
	TurnsCV    float64
	Agents     int // requests of each turn, at once
	Prompt     float64
	Output     float64
	TokensCV   float64
	Shared     float64 // share of a prompt that is in an engine's prefix cache
	Env        float64 // of each turn
	Processors int     // that turns share in their environment, one each; 0: any number
	CacheGames float64 // games whose prefixes fit the caches: of more, Shared is in them by that part; 0: any number
	NoVariance float64 // share of groups whose rewards are equal
	SlowGame   float64 // how many times as many turns one game of each group has; 0: none is longer
	SlowGroup  float64 // the same for all games of one group in Groups

	// Where they run.
	Engines    int
	Extra      int // engines beside them, which no fault picks out
	Engine     Engine
	Slots      int     // requests that an engine is given at once
	Cold       float64 // until the engines beyond Warm serve
	Warm       int
	Places     int     // games that workers play at once; 0: any number
	OthersHold int     // requests that other runs keep in flight, over all engines
	OtherSec   float64 // how long one of them takes alone

	// What the trainer does.
	Load, Ref, Train, Publish float64
	PublishInBackground       bool
	Checkpoint                float64
	CheckpointEvery           int
	CheckpointUnnamed         bool // the trainer reports no phase of that name
	TrainDrift                float64
	Noise                     Noise // of every phase
	FleetNoise                Noise // of the engines' speed, step by step

	// What lies between.
	AdapterLoad   float64 // of each engine, at each publication
	AdapterStalls bool    // an engine that loads generates nothing
	Launch        float64 // from the launch of a group to its first game
	Commit        float64 // from the end of a group's last game to its being ready
	Claim         float64 // from a batch being there to its being granted
	Deliver       float64 // from the grant to the trainer having it

	Faults []Fault

	// Instead is what a what-if sets whatever faults do; 0: nothing.
	Instead struct{ Depth, MaxStaleness int }

	// EngineRows has each step's record tell of each engine.
	EngineRows bool
	// SampleEvery is how often engines are sampled into the record's events; 0: never.
	SampleEvery float64
}

// Fault happens once: when a step is claimed, or at a time.
type Fault struct {
	Step int
	At   float64 // if above 0, in place of Step
	Do   func(*Control)
}

// Engine is how fast engines are. A request that has the engine for itself takes its uncached prompt tokens times
// PromptSec and its output tokens times OutputSec.
type Engine struct {
	PromptSec, OutputSec float64
	// PerRequest is by how much each further request in flight slows all of them: n take 1 + PerRequest x (n-1) times as
	// long.
	PerRequest float64
	// Knee is how many requests an engine serves as fast as one; each further one takes its share of that. 0: any number.
	Knee float64
	// Split lets prompts be worked on apart from outputs: those in work share one processor.
	Split bool
	// Sequences is how many requests run at once; others wait inside the engine. 0: any number.
	Sequences int
	// KV is how many tokens of requests fit; others wait inside the engine. 0: any number.
	KV float64
	// Preempts lets a request in when its prompt fits, and takes the youngest out when the cache overflows with what they
	// generate: it is read in again. Not with Split.
	Preempts bool
}

// room is how much of the cache is given to requests that come in.
func (e *Engine) room() float64 {
	if e.Preempts {
		return 0.97 * e.KV
	}
	return e.KV
}

// slowdown is how many times as long requests take when n are being worked on.
func (e Engine) slowdown(n int) float64 {
	s := 1 + e.PerRequest*float64(n-1)
	if e.Knee > 0 {
		s = max(s, float64(n)/e.Knee)
	}
	return max(s, 1)
}

// Noise is a random factor with a mean of 1 that remembers its last value.
type Noise struct {
	CV, Memory float64
	Tail       float64 // chance of a value three times as large; 0: none
}

// noise is the state of a Noise.
type noise struct{ last float64 }

func (n *noise) next(of Noise, normal, uniform float64) float64 {
	if of.CV <= 0 {
		return 1
	}
	sigma := math.Sqrt(math.Log(1 + of.CV*of.CV))
	n.last = of.Memory*n.last + math.Sqrt(1-of.Memory*of.Memory)*normal
	f := math.Exp(sigma*n.last - sigma*sigma/2)
	if uniform < of.Tail {
		f *= 3
	}
	return f
}
