package activities

import (
	"maps"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// GamesInPlay counts the games that this process plays, by run, and by what they were begun with. The zero value is
// ready for use.
type GamesInPlay struct {
	mu     sync.Mutex
	games  map[rollout.RunName]int
	models map[runModel]int
}

// runModel is a model that games of a run are played with.
type runModel struct {
	run   rollout.RunName
	model string
}

// begin counts a game, and its models, until its end is called.
func (p *GamesInPlay) begin(run rollout.RunName, models ...string) (end func()) {
	slices.Sort(models)
	models = slices.Compact(models)
	p.add(run, models, 1)
	return func() { p.add(run, models, -1) }
}

func (p *GamesInPlay) add(run rollout.RunName, models []string, d int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.games == nil {
		p.games, p.models = map[rollout.RunName]int{}, map[runModel]int{}
	}
	if p.games[run] += d; p.games[run] == 0 {
		delete(p.games, run)
	}
	for _, model := range models {
		key := runModel{run, model}
		if p.models[key] += d; p.models[key] == 0 {
			delete(p.models, key)
		}
	}
}

// ByRun is the games by run; runs without any are left out.
func (p *GamesInPlay) ByRun() map[rollout.RunName]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.games)
}

// ByModel is the games by run and model, the adapter or base model that they were begun with, or that a fixed policy
// of theirs has: a game may count with several.
func (p *GamesInPlay) ByModel() []enginestate.ModelUse {
	p.mu.Lock()
	defer p.mu.Unlock()
	var uses []enginestate.ModelUse
	for of, games := range p.models {
		uses = append(uses, enginestate.ModelUse{Run: of.run, Model: of.model, Games: games})
	}
	return uses
}
