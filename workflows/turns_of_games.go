package workflows

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// turn is where a game waits in its run's task queue. The queue is first in, first out, which is oldest group first for
// games that were never begun. One that was begun is older than all of these, so it goes before them (ADR 23). An
// activity keeps its priority for all its attempts: another turn is another activity. Where the server knows no
// priorities all turns wait in one line.
type turn int

const (
	firstTurn turn = iota // never begun
	goesOn                // begun, and not finished: its worker died, or its attempt failed
	rests                 // it gave its slot back because it cannot be played now
	onlyTurn              // as many attempts as it takes, in one line
)

// Priorities of turns: 1 is the highest, and whatever is beyond the server's lowest, 5 by default, counts as that.
// Temporal's default, which lies in between, is also that of the games that earlier versions have begun.
const (
	highest = 1
	lowest  = 5
)

// restCodes are failures of games that cannot be played for now, of which there may be many. They go behind the games
// that perhaps can.
var restCodes = []string{string(rollout.CodeUnserved), string(rollout.CodeEnvironmentHung)}

// options makes the options of a game's activity those of its turn.
func (t turn) options(options workflow.ActivityOptions) workflow.ActivityOptions {
	switch t {
	case firstTurn:
		options.RetryPolicy.MaximumAttempts = 1
	case goesOn:
		options.Priority = temporal.Priority{PriorityKey: highest}
		options.RetryPolicy.NonRetryableErrorTypes = restCodes
	case rests:
		options.Priority = temporal.Priority{PriorityKey: lowest}
	case onlyTurn:
	}
	return options
}

// after is the turn that follows one that has ended with err, if any does.
func (t turn) after(ctx workflow.Context, err error) (next turn, more bool) {
	rest := slices.Contains(restCodes, string(activities.Code(err)))
	switch {
	case err == nil, activities.Final(err), temporal.IsCanceledError(err), ctx.Err() != nil:
		return t, false
	case t == rests, t == onlyTurn, t == goesOn && !rest:
		return t, false // Temporal has tried again itself, and gives up
	case !has(ctx, "turns"): // a version without turns has scheduled it
		return t, false
	case rest:
		return rests, true
	}
	return goesOn, true
}

// fairness has a run's workflow, its groups and all their activities share the queues that all runs use with those of
// other runs, where the server knows fairness: what a workflow starts inherits it.
func fairness(run rollout.RunName) temporal.Priority {
	const most = 64 // bytes of a key
	return temporal.Priority{FairnessKey: string(run[:min(len(run), most)])}
}
