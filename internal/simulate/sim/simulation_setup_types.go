// Package sim is one pipeline in virtual time: a run's decisions are those of runmachine, its requests go through
// dispatch (package serving), and beside them are models of the buffer's rules, the trainer, the games and the engines.
// A simulated run leaves the same records as a live one, so that diagnosis reads either.
//
// Start reading at Setup and Run; setup_keys.json documents a setup's file.
package sim

import (
	_ "embed"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/demo"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// Setup is everything that a simulated run is made of: the run's own spec, and what surrounds the run. As JSON and in a
// file the keys of both stand beside each other, and the spec's seed is the simulation's, too. All times are the run's
// own wall time: of a demo whose engines are sped up, the sped-up times.
type Setup struct {
	runspec.Spec
	Demo      demo.Section `json:"demo,omitzero"`
	Fleet     Fleet        `json:"fleet"`
	Trainer   Trainer      `json:"trainer"`
	Workload  Workload     `json:"workload"`
	Overheads Overheads    `json:"overheads"`
}

// Fleet is the engines, and what becomes of them. What the file's demo says, too, is always written: a file that lacks
// it would take the demo's.
type Fleet struct {
	Engines int    `json:"engines"`
	Profile string `json:"profile"` // hardware profile: a name that comes with the program, or a file
	// CallTime is what every call takes, whatever it is, on an engine without a profile; 0: the profile says it.
	CallTime rollout.Duration `json:"call_time,omitempty"`
	// TimeFactor multiplies every time of the profile: 0.033 is an engine that is simulated at 30 times its speed; 0: 1.
	TimeFactor  float64 `json:"time_factor"`
	MaxNumSeqs  int     `json:"max_num_seqs"`        // sequences that an engine runs at once; 0: the profile's
	MaxInFlight int     `json:"max_in_flight"`       // requests that are given to an engine at once; 0: the service's default
	MaxLoRAs    int     `json:"max_loras,omitempty"` // adapters in one batch; 0: the profile's

	ColdStart rollout.Duration `json:"cold_start,omitempty"` // from the start of an engine to its first answer
	Events    []FleetEvent     `json:"events,omitempty"`     // in order of time
}

// FleetEvent is something that happens to one engine.
type FleetEvent struct {
	At     rollout.Duration `json:"at,omitempty"`   // since the start of the run
	Step   rollout.Step     `json:"step,omitempty"` // or when this step is claimed, if At is 0
	Engine int              `json:"engine"`         // 0 is the first
	// Kind is lose (requests in flight are lost), drain, add (an engine of the next number; it has its cold start first)
	// or slow, which multiplies the time of its work by Factor.
	Kind   string  `json:"kind"`
	Factor float64 `json:"factor,omitempty"`
}

// Trainer is what the trainer does with a batch. Its phases vary as drawn from the recorded ones, if there are any.
type Trainer struct {
	Load        rollout.Duration `json:"load"`
	RefLogprobs rollout.Duration `json:"ref_logprobs"`
	Train       rollout.Duration `json:"train"`
	Publish     rollout.Duration `json:"publish"`
	Checkpoint  rollout.Duration `json:"checkpoint,omitempty"`
	Every       int              `json:"checkpoint_every,omitempty"` // steps from one checkpoint to the next; 0: none
	// PublishInBackground lets the next step begin while the version is being loaded.
	PublishInBackground bool    `json:"publish_in_background,omitempty"`
	Variation           float64 `json:"variation,omitempty"` // coefficient of variation of each phase
}

// Workload says where games come from; exactly one of its sources is given.
type Workload struct {
	Distribution *GameDistribution `json:"distribution,omitempty"`
	Recorded     *RecordedGames    `json:"recorded,omitempty"`
	Bots         *BotGames         `json:"bots,omitempty"`
}

// Overheads is what the service and the network add.
type Overheads struct {
	Call   rollout.Duration `json:"call"`            // of each completion: there and back, without the engine's own time
	Phase  rollout.Duration `json:"phase"`           // of each phase of a game, beside its requests: environment, checkpoint
	Launch rollout.Duration `json:"launch"`          // from a group's launch to its first request
	Commit rollout.Duration `json:"commit"`          // from the end of a group's last game to its being ready
	Claim  rollout.Duration `json:"claim"`           // from a batch being ready to the trainer having it
	Slots  int              `json:"slots,omitempty"` // games that all workers play at once; 0: any number
}

// GameDistribution draws games.
type GameDistribution = workload.Distribution

// RecordedGames plays the games of a recorded run again.
type RecordedGames struct {
	File string `json:"file,omitempty"` // a run's record: see package runrecord
	// Games is what the file has. Whoever reads a setup's file, or calibrates one, provides it.
	Games *workload.Recorded `json:"-"`
}

// BotGames plays real games of the spec's environment among its bots, and takes the lengths of their prompts.
type BotGames struct {
	Groups int `json:"groups,omitempty"` // different groups, which then come again; 0: workload.DefaultGroups
	// Answers is who answers the prompts: BotAnswers or DrawnAnswers.
	Answers string `json:"answers,omitempty"`
}

// Who answers the prompts of games without a model.
const (
	BotAnswers   = "bots"  // the environment's bots, where it has any
	DrawnAnswers = "drawn" // by chance, from what each prompt's constraint allows, as a demo's engines do
)

// The kinds of a fleet's events.
const (
	LoseEngine  = "lose"
	DrainEngine = "drain"
	AddEngine   = "add"
	SlowEngine  = "slow"
)
