// Package tokensim is a third simulator of a run, engine iteration by engine iteration, that diagnosis is held against
// and not tuned on. Engines work as vLLM does: each iteration has a budget of tokens, prompts are read in before
// anything is generated or block what others generate, and a KV cache that overflows preempts. Contexts grow with every
// turn, games are of very unequal length, and a group may be complete without its slowest ones. It shares no code with
// the other simulators.
//
// Start reading at World and Play.
package tokensim

// World is what a run is made of. Times are in seconds. Faults change it while the run goes on.
type World struct {
	Seed                 uint64
	Steps, Depth, Groups int
	Games, Need          int // of a group; those that make it complete, 0: all

	// Games. A turn asks Agents at once; the context grows by what was said.
	Turns      float64
	TurnsSigma float64 // of the logarithm: 0.8 makes one game in twenty 4 times as long
	Agents     int
	Prompt     float64 // of the first turn
	Growth     float64 // of each turn after it, beside the completion
	Output     float64
	Miss       float64 // share of requests that find nothing in a cache
	Env        float64

	// Engines.
	Engines  int
	Slots    int     // requests that one is given
	Budget   int     // tokens of an iteration
	Blocking bool    // an iteration that reads prompts generates nothing
	MaxSeqs  int     // that run at once
	KV       float64 // tokens
	Iter     float64 // of any iteration
	PerRead  float64 // more for each prompt token
	PerSeq   float64 // more for each sequence that generates
	OwnLimit int
	Places   int // games at once; 0: any number
	Others   int // requests that another run keeps in flight

	// The trainer, and between.
	Ref, Train, Publish float64
	CV                  float64 // of every phase
	LoadSec             float64 // of an adapter, in which an engine does nothing
	Claim               float64

	Faults []Fault
}

// Fault happens when a step is claimed.
type Fault struct {
	Step int
	Do   func(*Run)
}

// Usual is a run whose engines are busy for some three quarters of the trainer's time.
func Usual() World {
	return World{Seed: 1, Steps: 36, Depth: 2, Groups: 6, Games: 4, Turns: 6, TurnsSigma: 0.4, Agents: 2, Prompt: 500,
		Growth: 60, Output: 60, Miss: 0.1, Env: 0.05, Engines: 3, Slots: 64, Budget: 2048, MaxSeqs: 48, KV: 120_000,
		Iter: 0.005, PerRead: 0.00005, PerSeq: 0.0010, Ref: 3, Train: 8, Publish: 0.5, CV: 0.05, LoadSec: 0.1}
}
