package workflows

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// gamePriority is where a game waits in its run's task queue. The queue is first in, first out, which is oldest group
// first for games that were never begun. One that was begun is older than these, so it goes before them (ADR 23). An
// activity keeps its priority for all its attempts: another priority is another activity. A server that knows no
// priorities has all games wait in one line.
type gamePriority int

const (
	neverBegun  gamePriority = iota
	goesOn                   // begun, and not finished: its worker died, or its attempt failed
	rests                    // it gave its slot back because it cannot be played now
	onePriority              // as many attempts as it takes, in one line
)

// Temporal's priorities: 1 is the highest. Values beyond the server's lowest, 5 by default, count as the lowest. The
// default, which games have that were never begun, lies in between.
const (
	highest = 1
	lowest  = 5
)

// restCodes are failures of games that cannot be played for now. There may be many: they go behind games that perhaps
// can.
var restCodes = []string{string(rollout.CodeUnserved), string(rollout.CodeEnvironmentHung),
	string(rollout.CodeEnvironmentUnavailable), string(rollout.CodePolicyUnavailable)}

// options makes the options of a game's activity those of its priority.
func (p gamePriority) options(options workflow.ActivityOptions) workflow.ActivityOptions {
	switch p {
	case neverBegun:
		options.RetryPolicy.MaximumAttempts = 1
	case goesOn:
		options.Priority = temporal.Priority{PriorityKey: highest}
		options.RetryPolicy.NonRetryableErrorTypes = restCodes
	case rests:
		options.Priority = temporal.Priority{PriorityKey: lowest}
	case onePriority:
	}
	return options
}

// after is the priority with which a game is played again after an activity that has ended with err, if it is.
func (p gamePriority) after(ctx workflow.Context, err error) (next gamePriority, more bool) {
	rest := slices.Contains(restCodes, string(activities.Code(err)))
	switch {
	case err == nil, activities.Final(err), temporal.IsCanceledError(err), ctx.Err() != nil:
		return p, false
	case p == rests, p == onePriority, p == goesOn && !rest:
		return p, false // Temporal has tried again itself, and gives up
	case rest:
		return rests, true
	}
	return goesOn, true
}

// fairness lets a run's workflow, groups and activities share the common queues fairly with other runs, if the server
// supports fairness: children and activities inherit it.
func fairness(run rollout.RunName) temporal.Priority {
	const most = 64 // bytes of a key
	return temporal.Priority{FairnessKey: string(run[:min(len(run), most)])}
}
