package crashtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Shape is what is special about a run's groups and batches. Successive runs take one after the other.
type Shape string

// The shapes.
const (
	Plain      Shape = "plain"
	Stragglers Shape = "stragglers" // more games are started than needed, and fewer may be enough
	NoFlat     Shape = "no-flat"    // groups without variance are dropped
	Waiting    Shape = "waiting"    // the trainer waits, so that nothing becomes too stale
	ByFinish   Shape = "by-finish"  // batches of what was ready first
)

func shapes() []Shape { return []Shape{Plain, Stragglers, NoFlat, Waiting, ByFinish} }

// plan is one run: its number, sizes and special things, all decided by the seed.
type plan struct {
	number int
	cfg    RunConfig
	seed   int64
	dir    string // where its trainer writes
}

// plan is the run of that number, from 1. What the configuration leaves open is drawn.
func (c *Config) plan(number int) plan {
	p := plan{number: number, cfg: c.Run, seed: c.Seed, dir: c.Dir}
	if p.cfg.Shape == "" {
		all := shapes()
		p.cfg.Shape = all[(int(c.Seed%int64(len(all)))+number)%len(all)]
	}
	return p
}

func (p plan) run() string { return fmt.Sprintf("chaos-%d", p.number) }

// file is where the run's trainers write, each thing in its folder.
func (p plan) file(folder, ending string) string {
	return filepath.Join(p.dir, folder, p.run()+ending)
}

// Staleness that a run of the shape Waiting allows: little enough that the trainer does wait.
const waitingStaleness = 3

func (p plan) spec() rollout.Spec {
	c := p.cfg
	spec := rollout.Spec{
		Name: rollout.RunName(p.run()), Model: model, Steps: c.Steps, Seed: p.seed,
		Environment: rollout.Environment{Kind: "tictactoe", Options: json.RawMessage(`{"opening_moves":1}`)},
		Group:       rollout.GroupSpec{Samples: c.Samples, MinSamples: c.Samples},
		Buffer:      rollout.BufferSpec{Depth: c.Depth, GroupsPerStep: c.GroupsPerStep, MaxStaleness: 8, OnStale: rollout.DropStale},
		Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 4},
		Adapters:    rollout.AdapterSpec{Rank: 8, PathPrefix: filepath.Join(p.dir, "adapters")},
		Dispatch:    rollout.Dispatch{Policy: rollout.LeastTokens},
		Timeouts: rollout.Timeouts{
			Completion: rollout.Duration(10 * time.Second), Episode: rollout.Duration(5 * time.Minute), Heartbeat: rollout.Duration(2 * time.Second),
		},
		Demo: rollout.Demo{Engines: engines, EngineMaxNumSeqs: 64, Speed: 1, Train: rollout.Duration(c.Train)},
	}
	switch c.Shape {
	case Stragglers:
		spec.Group.Oversample = 1
		spec.Group.MinSamples = max(1, c.Samples-1)
		spec.Group.Grace = rollout.Duration(300 * time.Millisecond)
	case NoFlat:
		spec.Group.ZeroVariance = rollout.DropFlat
	case Waiting:
		spec.Buffer.OnStale, spec.Buffer.MaxStaleness = rollout.WaitStale, waitingStaleness
	case ByFinish:
		spec.Buffer.Order = rollout.FinishOrder
	case Plain:
	}
	return spec
}
