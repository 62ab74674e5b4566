// Package program has programs that know nothing of leases play games of kind external. It leases the games, starts a
// program or calls a webhook for each, keeps the leases alive meanwhile, and reports how the games ended, all over the
// public API. Start reading at Player.Play; what is decided is in Ending and pace.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
)

// Program plays one game, and is gone soon after ctx is done. It is called for several games at a time.
type Program interface {
	Play(ctx context.Context, g *Game) Ending
}

// Game is a game that is leased.
type Game struct {
	api.LeasedGame
	Document []byte // as the server wrote it
}

// Player has the games of one run played.
type Player struct {
	Server  *apiclient.Client
	HTTP    *http.Client // for the calls of leased games
	Run     rollout.RunName
	Program Program
	Games   int           // at a time
	Grace   time.Duration // for games in progress, once no more are leased
	Say     func(format string, args ...any)

	mu    sync.Mutex
	tally Tally
	pace  pace
}

// Tally is how many games ended how.
type Tally struct {
	Played int `json:"played"` // with a reward
	Failed int `json:"failed"`
	Over   int `json:"over"`  // the program reported itself, or the lease or the group ended first
	Taken  int `json:"taken"` // by a webhook that reports itself
	Left   int `json:"left"`  // to whoever leases them next
}

func (t Tally) String() string {
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{{t.Played, "played"}, {t.Failed, "failed"}, {t.Over, "over before they were reported here"},
		{t.Taken, "taken over by the webhook"}, {t.Left, "left to whoever leases them next"}} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	return "games: " + cmp.Or(strings.Join(parts, ", "), "none")
}

// Play leases games until the run is over, or ctx is done; games in progress then have their grace, but only until now
// is done. A server that does not answer is waited for. The error is the server's refusal.
func (p *Player) Play(ctx, now context.Context) (Tally, error) {
	playing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var games sync.WaitGroup
	slots := make(chan struct{}, p.Games)
	err := p.lease(ctx, slots, func(g *Game) {
		games.Go(func() {
			defer func() { <-slots }()
			p.note(g, p.play(playing, g))
		})
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		games.Wait()
	}()
	select {
	case <-ended:
	case <-now.Done():
	case <-time.After(p.Grace):
	}
	end()
	<-ended
	return p.tally, err
}

// pollFor is how long one call waits for a game.
const pollFor = 20 * time.Second

// lease leases games until the run is over or ctx is done. Each has taken a slot when it begins.
func (p *Player) lease(ctx context.Context, slots chan struct{}, begin func(*Game)) error {
	var silent bool
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		g, err := p.leaseOne(ctx)
		for later(err) {
			if !silent {
				p.Say("no games: %v; trying until the server answers", err)
			}
			silent = true
			if retry.Pause(ctx, time.Second) != nil {
				return nil
			}
			g, err = p.leaseOne(ctx)
		}
		var refused *apiclient.Problem
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && refused.Code() == rollout.RunOver:
			p.Say("%v", err)
			return nil
		case err != nil:
			return err
		case silent:
			silent = false
			p.Say("the server answers again")
		}
		if g == nil {
			<-slots
			continue
		}
		begin(g)
	}
}

// later reports whether an error of a call may be none when it is made again.
func later(err error) bool {
	var unreachable *apiclient.Unreachable
	var refused *apiclient.Problem
	return errors.As(err, &unreachable) || errors.As(err, &refused) && (refused.Status == http.StatusTooManyRequests ||
		refused.Status >= http.StatusInternalServerError)
}

// leaseOne leases a game once that is due; nil: none is open.
func (p *Player) leaseOne(ctx context.Context) (*Game, error) {
	for p.rest() > 0 {
		if err := retry.Pause(ctx, p.rest()); err != nil {
			return nil, err
		}
	}
	a, err := p.Server.Call(ctx, http.MethodPost,
		fmt.Sprintf("%s/episodes/lease?wait=%s", apiclient.RunPath(p.Run), pollFor), "", nil)
	if err != nil || a.Status == http.StatusNoContent {
		return nil, err
	}
	game, _, err := apiclient.Read[api.LeasedGame](a, nil)
	return &Game{game, a.Body}, err
}

// rest is how long to wait before another game is leased.
func (p *Player) rest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.pace.next)
}
