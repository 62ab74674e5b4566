package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
)

// errOver ends a program whose game is over, or another program's.
var errOver = errors.New("the game is over, or its lease has ended")

// play has the program play a leased game, keeps the lease alive, and reports the end. When ctx is done first, the game
// is left to whoever leases it next.
func (p *Player) play(ctx context.Context, g *Game) Ending {
	service, err := apiclient.New(g.BaseURL, g.APIKey, p.HTTP)
	if err != nil {
		return Ending{How: Left, Reason: err.Error()}
	}
	leased, end := context.WithCancelCause(ctx)
	defer end(nil)
	go beat(leased, service, time.Duration(g.LeaseSec*float64(time.Second))/3, end)
	e := p.Program.Play(leased, g)
	e.Reason = strings.ReplaceAll(e.Reason, g.APIKey, "...") // a webhook may send back what it was sent
	switch {
	case errors.Is(context.Cause(leased), errOver):
		return Ending{How: Over}
	case ctx.Err() != nil:
		return Ending{How: Left} // there is no more to say, and to lease
	case e.How == Played:
		return report(ctx, service, "/done", e.Reward, e)
	case e.How == Failed:
		return failed(ctx, service, e)
	}
	return e
}

// failed reports a game that has failed.
func failed(ctx context.Context, service *apiclient.Client, e Ending) Ending {
	return report(ctx, service, "/fail", map[string]string{"reason": e.Reason}, e)
}

// beat says that the program lives, until ctx is done or the lease is over. A server that does not answer may do so
// again before the lease ends.
func beat(ctx context.Context, service *apiclient.Client, every time.Duration, end context.CancelCauseFunc) {
	for retry.Pause(ctx, every) == nil {
		soon, cancel := context.WithTimeout(ctx, every)
		a, err := service.Ask(soon, http.MethodPost, "/heartbeat", struct{}{})
		cancel()
		if err == nil && a.Status == http.StatusGone {
			end(errOver)
			return
		}
	}
}

// reportPatience is for how long an end is reported to a server that does not take it. The lease is over by then.
const reportPatience = 5 * time.Minute

// report tells the service of an ending until it is taken; the same again is the same call. One that is refused fails
// the game.
func report(ctx context.Context, service *apiclient.Client, path string, body any, e Ending) Ending {
	ctx, cancel := context.WithTimeout(ctx, reportPatience)
	defer cancel()
	for pause := time.Second / 4; ; pause = min(2*pause, 5*time.Second) {
		a, err := service.Ask(ctx, http.MethodPost, path, body)
		switch {
		case err != nil, a.Status == http.StatusTooManyRequests, a.Status >= http.StatusInternalServerError:
		case a.Status == http.StatusOK:
			return e
		case a.Status == http.StatusGone:
			return Ending{How: Over}
		case e.How == Played:
			return failed(ctx, service, Ending{How: Failed, Reason: fmt.Sprintf("its reward is refused: %s", said(a))})
		default:
			return Ending{How: Left, Reason: fmt.Sprintf("its failure is refused: %s", said(a))}
		}
		if retry.Pause(ctx, pause) != nil {
			return Ending{How: Left, Reason: "the server did not take its end"}
		}
	}
}

// said is the message of a refusal in OpenAI's form.
func said(a apiclient.Answer) string {
	var told struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Body, &told) != nil || told.Error.Message == "" {
		return fmt.Sprintf("status %d", a.Status)
	}
	return told.Error.Message
}

// note counts an ending, and says what a person should know of it.
func (p *Player) note(g *Game, e Ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.pace.note(time.Now(), e.How)
	switch e.How {
	case Played:
		p.tally.Played++
	case Failed:
		p.tally.Failed++
		p.Say("game %s failed: %s", g.Episode, e.Reason)
	case Left:
		p.tally.Left++
		if first && e.Reason != "" {
			p.Say("game %s is left to whoever leases it next: %s; trying again, more slowly", g.Episode, e.Reason)
		}
	case Taken:
		p.tally.Taken++
	case Over:
		p.tally.Over++
	}
}
