package crashtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/game/openenv"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Shape is what is special about a run's groups and batches. Successive runs take one after the other.
type Shape string

// The shapes.
const (
	Plain          Shape = "plain"
	Stragglers     Shape = "stragglers" // more games are started than needed, and fewer may be enough
	NoZeroVariance Shape = "no-flat"    // groups without variance are dropped
	Waiting        Shape = "waiting"    // the trainer waits, so that nothing becomes too stale
	ByFinish       Shape = "by-finish"  // batches of what was ready first
	League         Shape = "league"     // past versions play against the learner
)

// The shapes that a run has where it is asked for, for there are more processes to break: its games are played by
// programs, or in environments behind sockets.
const (
	External Shape = "external"
	OpenEnv  Shape = "openenv"
)

// Shapes lists those that can be asked for.
func Shapes() []Shape { return append(shapes(), External, OpenEnv) }

func shapes() []Shape { return []Shape{Plain, Stragglers, NoZeroVariance, Waiting, ByFinish, League} }

// plan is one run: its number, sizes and special things, all decided by the seed.
type plan struct {
	number int // of the run's name
	life   int // of the name, from 1
	lives  int // that the name will have
	cfg    RunConfig
	retain int // steps whose batches are kept after they were trained on
	seed   int64
	dir    string // where its trainer writes

	environments []string // URLs, of the shape OpenEnv
}

// plan is the i-th run, from 1: so many in a row share a name. What the configuration leaves open is drawn.
func (c *Config) plan(i int) plan {
	lives := max(c.Lives, 1)
	p := plan{
		number: (i-1)/lives + 1, life: (i-1)%lives + 1, lives: lives,
		cfg: c.Run, retain: c.retain(), seed: c.Seed + int64(i), dir: c.Dir,
	}
	if p.cfg.Shape == "" {
		all := shapes()
		p.cfg.Shape = all[(int(c.Seed%int64(len(all)))+i)%len(all)]
	}
	return p
}

// retain is retain_steps of the configuration. Where names and ends are tried it is the default; otherwise every
// batch is kept, so that it can be claimed again at the end.
func (c *Config) retain() int {
	if c.Deck == Names {
		return 2
	}
	return 1000
}

// agents is how many play and learn in each game.
func (p plan) agents() int {
	if p.cfg.Shape == League {
		return 1
	}
	return 2
}

func (p plan) run() string { return fmt.Sprintf("chaos-%d", p.number) }

// id is what the service calls the run: its name, and the life of it.
func (p plan) id() rollout.RunName { return rollout.RunName(p.run()).InLife(p.life) }

// label is the run's name with the life that it has.
func (p plan) label() string {
	if p.lives > 1 {
		return fmt.Sprintf("%s.life-%d", p.run(), p.life)
	}
	return p.run()
}

// last reports whether the name is not used again.
func (p plan) last() bool { return p.life >= p.lives }

// cut reports whether the run is deleted in its middle.
func (p plan) cut() bool { return p.life < p.lives-1 || p.life == 1 && !p.last() }

// training is which training the run's weights come of: lives of a name share the paths of their adapters and not the
// weights.
func (p plan) training() int { return p.life }

// file is where the run's trainers write, each thing in its folder.
func (p plan) file(folder, ending string) string {
	return filepath.Join(p.dir, folder, p.label()+ending)
}

// Staleness that a run of the shape Waiting allows: little enough that the trainer does wait.
const waitingStaleness = 3

func (p plan) spec() runspec.Spec {
	c := p.cfg
	spec := runspec.Spec{
		Name: rollout.RunName(p.run()), Model: model, Steps: c.Steps, Seed: p.seed,
		Environment: runspec.Environment{Kind: "tictactoe", Options: json.RawMessage(`{"opening_moves":1}`)},
		Group:       runspec.GroupSpec{Samples: c.Samples, MinSamples: c.Samples},
		Buffer: runspec.BufferSpec{Depth: c.Depth, GroupsPerStep: c.GroupsPerStep, MaxStaleness: 8,
			OnStale: runspec.DropStale},
		Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 4},
		Adapters: runspec.AdapterSpec{Rank: 8, PathPrefix: filepath.Join(p.dir, "adapters")},
		Dispatch: runspec.Dispatch{Policy: runspec.LeastTokens},
		Timeouts: runspec.Timeouts{
			Completion: rollout.Duration(10 * time.Second), Episode: rollout.Duration(5 * time.Minute),
			Heartbeat: rollout.Duration(2 * time.Second),
		},
	}
	switch c.Shape {
	case Stragglers:
		spec.Group.Oversample = 1
		spec.Group.MinSamples = max(1, c.Samples-1)
		spec.Group.Grace = rollout.Duration(300 * time.Millisecond)
	case NoZeroVariance:
		spec.Group.ZeroVariance = runspec.DropZeroVariance
	case Waiting:
		spec.Timeouts.Heartbeat = rollout.Duration(10 * time.Second) // the default: Temporal hears of games rarely
		spec.Buffer.OnStale, spec.Buffer.MaxStaleness = runspec.WaitStale, waitingStaleness
	case ByFinish:
		spec.Buffer.Order = runspec.FinishOrder
	case League:
		spec.Environment.Options = json.RawMessage(`{"opening_moves":1,"opponent":"league:past"}`)
		spec.League = runspec.League{Slots: 2, Bot: "random", BotShare: 0.2}
	case External:
		spec.Environment = runspec.Environment{Kind: external.Kind, Options: json.RawMessage(
			`{"agents": ["a", "b"], "lease": "3s"}`)}
	case OpenEnv:
		urls, _ := json.Marshal(p.environments) // texts
		spec.Environment = runspec.Environment{Kind: openenv.Kind, Options: json.RawMessage(`{"choices": "legal_actions",
			"action": {"add": "{answer}"}, "template": "The sum is {sum}. Add: ", "urls": ` + string(urls) + `}`)}
	case Plain:
	}
	return spec
}
