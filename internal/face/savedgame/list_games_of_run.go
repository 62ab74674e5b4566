package savedgame

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

const (
	// mostGames is how many games of a run are listed, those of the newest groups: as many as events are kept of.
	mostGames = 20_000
	// mostHistories is how many runs' games are remembered between two calls.
	mostHistories = 4
	// lateFacts is how late a fact of one kind may be written after one of another: so far back is read again.
	lateFacts = 2 * time.Second
)

// histories is what was read of runs' games, so that the next call reads what is new.
type histories struct {
	mu   sync.Mutex
	runs []*readHistory // the one that was asked for last comes last
}

type readHistory struct {
	run   rollout.RunName
	mu    sync.Mutex // held while it is read
	games *gamelist.History
	after string
}

// of is the history of a run; it is read by one caller at a time.
func (h *histories) of(run rollout.RunName) *readHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range h.runs {
		if r.run == run {
			h.runs = append(append(h.runs[:i:i], h.runs[i+1:]...), r)
			return r
		}
	}
	r := &readHistory{run: run, games: gamelist.NewHistory(run, mostGames)}
	if h.runs = append(h.runs, r); len(h.runs) > mostHistories {
		h.runs = h.runs[1:]
	}
	return r
}

// Games is a page of a run's games.
func (r *Reader) Games(ctx context.Context, run rollout.RunName, q gamelist.Query) (gamelist.Page, error) {
	if _, err := r.Buffer.Status(ctx, run); err != nil {
		return gamelist.Page{}, err
	}
	progress, err := r.Buffer.Progress(ctx, run)
	if err != nil {
		return gamelist.Page{}, err
	}
	h := r.histories.of(run)
	h.mu.Lock()
	err = r.readOn(ctx, h)
	games := h.games.Games(inPlay(run, progress))
	h.mu.Unlock()
	if err != nil {
		return gamelist.Page{}, err
	}
	page, err := q.Page(games)
	if err != nil {
		return page, err
	}
	return page, r.addGroups(ctx, run, page.Games)
}

// readOn hears what was written since the last time.
func (r *Reader) readOn(ctx context.Context, h *readHistory) error {
	for after := back(h.after, lateFacts); ; {
		facts, err := r.Events.Facts(ctx, h.run, after, eventsPage, gamelist.Kinds()...)
		if err != nil {
			return fmt.Errorf("read games: %w", err)
		}
		if len(facts) == 0 {
			return nil
		}
		for _, f := range facts {
			after = f.ID
			if e, err := f.Event(); err == nil { // else of another version
				h.games.Hear(e)
			}
		}
		h.after = after
	}
}

// back is the id so long before another one.
func back(id string, d time.Duration) string {
	ms, _, _ := strings.Cut(id, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d-0", max(0, at-d.Milliseconds()))
}

func inPlay(run rollout.RunName, progress []buffer.GroupProgress) (open []rollout.GroupSeq, games []gamelist.InPlay) {
	for _, g := range progress {
		open = append(open, g.Seq)
		for _, game := range g.Games {
			ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: g.Seq}, Sample: game.Sample}
			games = append(games, gamelist.InPlay{Ref: ref, Attempt: game.Attempt, Phases: game.Phases, Finished: game.Finished})
		}
	}
	return open, games
}

// addGroups adds where the games' groups are, and what can be shown therefore.
func (r *Reader) addGroups(ctx context.Context, run rollout.RunName, games []gamelist.Game) error {
	states := map[rollout.GroupSeq]buffer.GroupState{}
	for i := range games {
		g := &games[i]
		state, known := states[g.Group]
		if !known {
			var err error
			if state, err = r.Buffer.GroupState(ctx, rollout.GroupRef{Run: run, Seq: g.Group}); err != nil {
				return err
			}
			states[g.Group] = state
		}
		g.GroupState = string(state)
		g.Kept = kept(state, g)
	}
	return nil
}

// kept reports whether a game can be shown.
func kept(state buffer.GroupState, g *gamelist.Game) bool {
	switch state {
	case buffer.GroupQueued, buffer.GroupInFlight:
		return g.Phases > 0
	case buffer.GroupReady, buffer.GroupClaimed, buffer.GroupCompleted:
		return g.State == gamelist.Finished
	case buffer.GroupTrained, buffer.GroupDropped:
	}
	return false
}
