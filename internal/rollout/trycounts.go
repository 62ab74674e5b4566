package rollout

import (
	"cmp"
	"slices"
	"time"
)

// Tries is how the tries at a run's games have ended so far. A game that is tried again counts once as finished,
// and each of its tries that failed counts as failed; games that their group needs no more, and tries whose worker
// died, count as neither. A worker that loses Redis between its work and the counting may count one twice, or not
// at all.
type Tries struct {
	Finished int64 `json:"finished"` // games
	Failed   int64 `json:"failed"`   // tries
	// ByCode is the failed ones, the most frequent first.
	ByCode []FailedTries `json:"by_code"`
	// Counts is the environment's own counters over the finished games, such as answers_invalid.
	Counts map[string]int64 `json:"counts,omitempty"`
	// FailingSince is when the first try failed after which none has succeeded: no game finished, and none that was
	// tried again got further than before. Zero: the last try did.
	FailingSince time.Time `json:"failing_since,omitzero"`
}

// FailedTries is the tries that failed in one way.
type FailedTries struct {
	Code    string `json:"code"`
	Tries   int64  `json:"tries"`
	GivenUp int64  `json:"given_up"` // of these, the last ones of their games
	InRow   int64  `json:"in_row"`   // of these, since a try last succeeded

	Last      string    `json:"last_error"`
	LastAt    time.Time `json:"last_at"`
	LastGame  string    `json:"last_game"` // RUN/GROUP/EPISODE
	LastTried int       `json:"last_attempt"`
}

// Worst is what fails most often since a try last succeeded; false when nothing does.
func (t Tries) Worst() (FailedTries, bool) {
	if len(t.ByCode) == 0 {
		return FailedTries{}, false
	}
	worst := slices.MaxFunc(t.ByCode, func(a, b FailedTries) int { return cmp.Compare(a.InRow, b.InRow) })
	return worst, worst.InRow > 0
}

// FailedTry is one try at a game that failed.
type FailedTry struct {
	Ref     EpisodeRef
	Code    string
	Error   string
	Attempt int
	Final   bool // the game is given up
	At      time.Time
}
