package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// gamesHere is the games that goroutines of this process play. When Temporal has taken an attempt for dead that is
// not, which it does with all of them after an outage, and the next attempt begins in the same process, then that
// takes over the goroutine, with the requests that it waits for. The zero value is ready for use.
type gamesHere struct {
	mu    sync.Mutex
	games map[buffer.GameRef]any // *gameHere[T]
}

// gameHere is a game that a goroutine plays for an attempt. It is looked after by the activity that began it, or by a
// later one that took it over.
type gameHere[T any] struct {
	at     *attempt // as which it is played
	cancel context.CancelFunc
	ended  chan struct{} // closed when result and err are set
	result T
	err    error

	taken chan struct{} // closed when another activity looks after it; guarded by the mutex of gamesHere
}

// errTakenOver ends an activity that Temporal has given up, when a later attempt in this process plays its game.
var errTakenOver = errors.New("a later attempt in the same process has taken over the game")

// playHere begins to play on a goroutine of its own, or takes over the goroutine that plays the game already. The
// game goes on when ctx ends, until it is cancelled. taken is closed when a later activity has taken it over.
func playHere[T any](
	ctx context.Context, at *attempt, play func(context.Context) (T, error),
) (g *gameHere[T], taken <-chan struct{}) {
	h := &at.gamesHere
	h.mu.Lock()
	defer h.mu.Unlock()
	if g, ok := h.games[at.game()].(*gameHere[T]); ok && at.begins {
		close(g.taken)
		g.taken = make(chan struct{})
		return g, g.taken
	}
	g = &gameHere[T]{at: at, ended: make(chan struct{}), taken: make(chan struct{})}
	ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if h.games == nil {
		h.games = map[buffer.GameRef]any{}
	}
	if at.begins {
		h.games[at.game()] = g
	}
	go g.run(ctx, play)
	return g, g.taken
}

func (g *gameHere[T]) run(ctx context.Context, play func(context.Context) (T, error)) {
	defer g.cancel()
	defer close(g.ended)
	defer g.leave()
	g.err = errors.New("its goroutine exited")
	defer func() {
		if r := recover(); r != nil {
			g.at.Log.Error("an attempt at a game panicked", "game", g.at.name(), "panic", r, "stack", string(debug.Stack()))
			g.err = rollout.Fail(rollout.Retryable, rollout.CodePanic, fmt.Errorf("%v", r))
		}
	}()
	g.result, g.err = play(ctx)
}

// leave has later attempts begin for themselves.
func (g *gameHere[T]) leave() {
	h := &g.at.gamesHere
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.games[g.at.game()] == any(g) {
		delete(h.games, g.at.game())
	}
}

// end ends the game, and has later attempts begin for themselves.
func (g *gameHere[T]) end() {
	g.leave()
	g.cancel()
}

// isTaken reports whether another activity looks after the game.
func isTaken(taken <-chan struct{}) bool {
	select {
	case <-taken:
		return true
	default:
		return false
	}
}
