package runstatus

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// TrainerActivity is when a run's trainer was heard of, at whichever server.
type TrainerActivity struct {
	Next  rollout.Step // the first that is not completed
	Step  rollout.Step // the first that is not granted
	First time.Time    // when the trainer asked for that one first; zero: it has not asked yet
	Last  time.Time    // when it asked for it last, to a second

	Generation rollout.TrainerGeneration
	// Heard is when it announced itself, was given a batch, recorded a step or sent a heartbeat last; zero: never.
	Heard time.Time
	Beats bool   // it sends heartbeats
	Ended string // why it ended, by its own last word; empty: it did not say so, or was heard of since
	// UsualSec is how long its steps take from the batch to the record, smoothed; 0: it has recorded none.
	UsualSec float64
}

// askAgain is how long a trainer counts as waiting after its last call: one that is told to ask again does so about
// once a second.
const askAgain = 10 * time.Second

// Waiting reports whether a trainer waits for the next batch now. One that has asked and then went away does not.
func (a TrainerActivity) Waiting(now time.Time) bool {
	return !a.First.IsZero() && (a.Last.IsZero() || now.Sub(a.Last) < askAgain)
}

// Patience of a trainer that says nothing: silentSteps of its usual steps, and no less than minSilence; before its
// first record, firstStep; where it sends heartbeats, minSilence whatever its steps take.
const (
	silentSteps = 5
	minSilence  = time.Minute
	firstStep   = 30 * time.Minute
)

// Silent reports that a trainer took part in the run and has said that it ends, or was not heard of for longer than its
// steps explain, and since when.
func (a TrainerActivity) Silent(now time.Time) (since time.Time, is bool) {
	since = a.Heard
	if a.Last.After(since) {
		since = a.Last
	}
	if a.Ended != "" && since.Equal(a.Heard) {
		return since, true
	}
	if since.IsZero() || a.Step == 0 || a.Waiting(now) {
		return since, false
	}
	patience := firstStep
	switch {
	case a.Beats:
		patience = minSilence
	case a.UsualSec > 0:
		patience = max(minSilence, time.Duration(silentSteps*a.UsualSec*float64(time.Second)))
	}
	return since, now.Sub(since) > patience
}
