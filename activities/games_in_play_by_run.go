package activities

import (
	"maps"
	"sync"

	"github.com/millrace/millrace/internal/rollout"
)

// GamesInPlay counts the games that this process plays, by run. gameslots.Pool counts by task queue instead, of which
// runs that earlier versions began share one. The zero value is ready for use.
type GamesInPlay struct {
	mu    sync.Mutex
	games map[rollout.RunName]int
}

// begin counts a game until its end is called.
func (p *GamesInPlay) begin(run rollout.RunName) (end func()) {
	p.add(run, 1)
	return func() { p.add(run, -1) }
}

func (p *GamesInPlay) add(run rollout.RunName, d int) {
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
func (p *GamesInPlay) ByRun() map[rollout.RunName]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.games)
}
