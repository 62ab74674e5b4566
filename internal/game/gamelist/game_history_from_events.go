// Package gamelist is the list of a run's games as a person looks through it: every game that is heard of, in play,
// finished, failed or cancelled, with its reward, length, policy versions and last failure, in the order that is asked
// for, page by page; and what is shown of a game's turns. The list is made of events and of the buffer's progress,
// which somebody else reads. Start reading at History and Query.
package gamelist

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// State is how far a game has come.
type State string

// The states of games.
const (
	Playing   State = "playing"
	Finished  State = "finished"
	Failed    State = "failed"    // it was given up
	Cancelled State = "cancelled" // its group needed it no more
)

// States is all of them.
func States() []State { return []State{Playing, Finished, Failed, Cancelled} }

// Game is one game of a run.
type Game struct {
	Name   string           `json:"game" doc:"RUN/GROUP/EPISODE"`
	Group  rollout.GroupSeq `json:"group"`
	Sample int              `json:"episode"`
	State  State            `json:"state" enum:"playing,finished,failed,cancelled"`
	// GroupState is where the group is; only of the games of a page.
	GroupState string `json:"group_state,omitempty" doc:"Where its group is: queued, in_flight, ready, claimed, completed, trained, dropped"`
	Kept       bool   `json:"kept" doc:"Its phases and turns can be shown"`

	Reward     *float64               `json:"reward,omitempty" doc:"Mean of its agents, or that of the agent asked for; none before the end"`
	Rewards    map[string]float64     `json:"rewards,omitempty" doc:"Each agent's"`
	MinVersion *rollout.PolicyVersion `json:"policy_version_min,omitempty" doc:"Oldest version that sampled any turn"`
	MaxVersion *rollout.PolicyVersion `json:"policy_version_max,omitempty"`
	Phases     int                    `json:"phases"`
	Seconds    float64                `json:"duration_seconds,omitempty"`
	Requests   int64                  `json:"requests,omitempty"`
	Tokens     int64                  `json:"output_tokens,omitempty"`
	Attempts   int                    `json:"attempts"`
	EndedAt    time.Time              `json:"ended_at,omitzero"`

	Code    rollout.Code `json:"code,omitempty" doc:"How its last attempt failed, if one did"`
	Failure string       `json:"failure,omitempty"`
	// Failures is each attempt that failed, the latest last; of very many the latest.
	Failures []FailedAttempt `json:"failed_attempts,omitempty"`
}

// FailedAttempt is one attempt at a game that failed.
type FailedAttempt struct {
	Attempt int          `json:"attempt"`
	At      time.Time    `json:"at"`
	Code    rollout.Code `json:"code"`
	Failure string       `json:"failure"`
	Final   bool         `json:"final,omitempty" doc:"The game was given up with it"`
}

// mostFailedAttempts is how many of them are kept of a game: as many as are held against it. Those that are excused, of
// which there may be any number, fail for one reason.
const mostFailedAttempts = 20

// key is a game's place in its run.
type key struct {
	group  rollout.GroupSeq
	sample int
}

func keyOf(ref rollout.EpisodeRef) key { return key{ref.Seq, ref.Sample} }

// History is what the events tell of a run's games. It hears them in any order, and as often as they come.
type History struct {
	run   rollout.RunName
	games map[key]*Game
	most  int
}

// NewHistory is the games of a run before any event. Of more than most games those of the oldest groups are forgotten.
func NewHistory(run rollout.RunName, most int) *History {
	return &History{run: run, games: map[key]*Game{}, most: most}
}

// Kinds is the kinds of events that a History hears.
func Kinds() []string {
	return []string{telemetry.KindOf(telemetry.EpisodeFinished{}), telemetry.KindOf(telemetry.EpisodeFailed{})}
}

// Hear takes what an event tells, if it is of a game.
func (h *History) Hear(e telemetry.Event) {
	if b, is := e.Body.(telemetry.EpisodeFinished); is {
		h.finished(e, b)
	}
	if b, is := e.Body.(telemetry.EpisodeFailed); is {
		h.failed(e, b)
	}
	h.forget()
}

func (h *History) finished(e telemetry.Event, b telemetry.EpisodeFinished) {
	g := h.game(b.Ref)
	g.State, g.EndedAt = Finished, e.At
	g.Phases, g.Seconds, g.Attempts = b.Phases, b.WallSec, max(g.Attempts, b.Attempts)
	g.Requests, g.Tokens = b.Usage.Requests, b.Usage.OutputTokens
	if len(b.Rewards) > 0 {
		g.Rewards, g.MinVersion, g.MaxVersion = b.Rewards, &b.MinVersion, &b.MaxVersion
	}
}

func (h *History) failed(e telemetry.Event, b telemetry.EpisodeFailed) {
	g := h.game(b.Ref)
	if b.Code != rollout.CodeCancelled {
		g.addFailure(FailedAttempt{b.Attempt, e.At, b.Code, b.Failure, b.Final})
	}
	if b.Attempt >= g.Attempts {
		g.Attempts = b.Attempt
		if b.Code != rollout.CodeCancelled {
			g.Code, g.Failure = b.Code, b.Failure
		}
	}
	if g.State == Finished {
		return
	}
	g.Requests, g.Tokens = b.Usage.Requests, b.Usage.OutputTokens
	if b.Final {
		g.State, g.EndedAt = Failed, e.At
		if b.Code == rollout.CodeCancelled {
			g.State = Cancelled
		}
	}
}

// addFailure adds a failed attempt, unless it is known.
func (g *Game) addFailure(f FailedAttempt) {
	at, known := slices.BinarySearchFunc(g.Failures, f.Attempt, func(one FailedAttempt, attempt int) int {
		return cmp.Compare(one.Attempt, attempt)
	})
	if known {
		return
	}
	all := slices.Insert(slices.Clone(g.Failures), at, f) // those that were given out are not touched
	g.Failures = all[max(0, len(all)-mostFailedAttempts):]
}

func (h *History) game(ref rollout.EpisodeRef) *Game {
	g, known := h.games[keyOf(ref)]
	if !known {
		ref.Run = h.run
		g = &Game{Name: ref.String(), Group: ref.Seq, Sample: ref.Sample, State: Playing}
		h.games[keyOf(ref)] = g
	}
	return g
}

// forget drops the oldest tenth when there are too many.
func (h *History) forget() {
	if h.most <= 0 || len(h.games) <= h.most {
		return
	}
	groups := make([]rollout.GroupSeq, 0, len(h.games))
	for k := range h.games {
		groups = append(groups, k.group)
	}
	slices.Sort(groups)
	maps.DeleteFunc(h.games, func(k key, _ *Game) bool { return k.group <= groups[len(groups)/10] })
}

// InPlay is a game that the buffer has something of, in a group that is not committed.
type InPlay struct {
	Ref             rollout.EpisodeRef
	Attempt, Phases int
	Finished        bool
}

// Games is all games: those of the history, with what is in play now in the groups that are not committed. A game of
// another group whose end is not told is cancelled, as nobody needs it.
func (h *History) Games(open []rollout.GroupSeq, inPlay []InPlay) []Game {
	playing := map[key]InPlay{}
	for _, p := range inPlay {
		playing[keyOf(p.Ref)] = p
	}
	games := make([]Game, 0, len(h.games)+len(playing))
	for k, g := range h.games {
		game := *g
		if p, now := playing[k]; now {
			game.Phases, game.Attempts = max(game.Phases, p.Phases), max(game.Attempts, p.Attempt)
			delete(playing, k)
		} else if game.State == Playing && !slices.Contains(open, game.Group) {
			game.State = Cancelled
		}
		games = append(games, game)
	}
	for _, p := range playing {
		ref := p.Ref
		ref.Run = h.run
		game := Game{Name: ref.String(), Group: ref.Seq, Sample: ref.Sample, State: Playing, Phases: p.Phases,
			Attempts: p.Attempt}
		if p.Finished {
			game.State = Finished
		}
		games = append(games, game)
	}
	return games
}
