package runstatus

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// AttemptCounts is how the attempts at a run's games have ended so far. A game that is tried again counts once as
// finished, and each of its attempts that failed counts as failed; games that their group needs no more, and attempts
// whose worker died, count as neither. A worker that loses Redis between its work and the counting may count one twice,
// or not at all.
type AttemptCounts struct {
	Finished int64 `json:"finished"` // games
	Failed   int64 `json:"failed"`   // attempts
	// ByCode is the failed ones, the most frequent first.
	ByCode []FailedAttempts `json:"by_code"`
	// Counts is the environment's own counters over the finished games, such as answers_invalid.
	Counts map[string]int64 `json:"counts,omitempty"`
	// FailingSince is when the first attempt failed after which none has succeeded: no game finished, and none that was
	// tried again got further than before. Zero: the last attempt did.
	FailingSince time.Time `json:"failing_since,omitzero"`
	// EndedAt is when an attempt ended last, in success or failure; zero: none has.
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// FailedAttempts is the attempts that failed in one way.
type FailedAttempts struct {
	Code     rollout.Code `json:"code"`
	Attempts int64        `json:"attempts"`
	GivenUp  int64        `json:"given_up"` // of these, the last ones of their games
	InRow    int64        `json:"in_row"`   // of these, since an attempt last succeeded

	Last      string    `json:"last_error"`
	LastAt    time.Time `json:"last_at"`
	LastGame  string    `json:"last_game"` // RUN/GROUP/EPISODE
	LastTried int       `json:"last_attempt"`
}

// Worst is what fails most often since an attempt last succeeded; false when nothing does.
func (t AttemptCounts) Worst() (FailedAttempts, bool) {
	if len(t.ByCode) == 0 {
		return FailedAttempts{}, false
	}
	worst := slices.MaxFunc(t.ByCode, func(a, b FailedAttempts) int { return cmp.Compare(a.InRow, b.InRow) })
	return worst, worst.InRow > 0
}

// FailedAttempt is one attempt at a game that failed.
type FailedAttempt struct {
	Ref     rollout.EpisodeRef
	Code    rollout.Code
	Error   string
	Attempt int
	Final   bool // the game is given up
	At      time.Time
	WarmUp  bool          // it was an attempt at the warm-up of the game's group
	Usage   rollout.Usage // of the game up to here, earlier attempts included, without requests that were cut off
}
