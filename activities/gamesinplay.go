package activities

import (
	"maps"
	"sync"

	"github.com/millrace/millrace/internal/rollout"
)

// Playing counts the games that this process plays, by run. The zero value is ready for use.
type Playing struct {
	mu    sync.Mutex
	games map[rollout.RunName]int
}

// begin counts a game until its end is called.
func (p *Playing) begin(run rollout.RunName) (end func()) {
	p.add(run, 1)
	return func() { p.add(run, -1) }
}

func (p *Playing) add(run rollout.RunName, d int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.games == nil {
		p.games = map[rollout.RunName]int{}
	}
	if p.games[run] += d; p.games[run] == 0 {
		delete(p.games, run)
	}
}

// ByRun is the games by run; runs without any are left out.
func (p *Playing) ByRun() map[rollout.RunName]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.games)
}
