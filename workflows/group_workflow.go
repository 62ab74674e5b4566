package workflows

import (
	"cmp"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// SignalGroupEnd tells a run that one of its groups is ready or dropped. Its body is activities.GroupEnd.
const SignalGroupEnd = "group-end"

// GroupInput starts a group.
type GroupInput struct {
	Plan  activities.GroupPlan `json:"plan"`
	Run   string               `json:"run"`   // workflow id of the run, which hears how the group ended
	Games string               `json:"games"` // task queue of the episodes
	// GameLot is how many games are started in one task; 0: all.
	GameLot int `json:"game_lot,omitempty"`
}

// Group plays one scenario samples times and commits the games together: all of them, or at least the configured
// minimum when some are given up. However it ends, its run hears of it.
func Group(ctx workflow.Context, in GroupInput) (activities.GroupEnd, error) {
	end, err := playGroup(ctx, in)
	if err != nil {
		end = activities.Committed{GroupEnd: discardGroup(ctx, in, activities.Code(err))}
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if !end.Told {
		tellEnd(ctx, in, end.GroupEnd)
	}
	indexEnd(ctx, end.GroupEnd)
	showEnd(ctx, in.Plan, end.GroupEnd)
	return end.GroupEnd, nil
}

// tellEnd tells the run how the group ended. The run may have continued as new or ended meanwhile; the signal goes to
// whichever execution has its id.
func tellEnd(ctx workflow.Context, in GroupInput, end activities.GroupEnd) {
	err := workflow.SignalExternalWorkflow(ctx, in.Run, "", SignalGroupEnd, end).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Info("the run is over; nobody to tell", "group", in.Plan.Ref.String(), "error", err)
	}
}

func playGroup(ctx workflow.Context, in GroupInput) (activities.Committed, error) {
	var end activities.Committed
	var prepared activities.Prepared
	if err := executeShort(ctx, &prepared, acts.PrepareGroup, in.Plan); err != nil {
		return end, err
	}
	if prepared.WarmUp { // of one priority: how far it has come goes from attempt to attempt of one activity
		long := workflow.WithActivityOptions(ctx, episodeActivity(in))
		if err := workflow.ExecuteActivity(long, acts.WarmUpGroup, in.Plan).Get(ctx, nil); err != nil {
			return end, err
		}
	}
	games, err := playEpisodes(ctx, in)
	if err != nil {
		return end, err
	}
	err = executeShort(ctx, &end, acts.CommitGroup, activities.CommitInput{
		GroupPlan: in.Plan, Finished: games.finished, Cancelled: games.running,
	})
	return end, err
}

// games is how far the games of a group have come.
type games struct {
	running  int
	finished []int  // samples
	failure  error  // the latest
	late     bool   // the grace of those still running is over
	pages    string // links to theirs, for people
}

// enough reports whether nothing is to be waited for any more: as many games as are wanted have finished, none is
// running, or the minimum has finished and the others have had their time.
func (g *games) enough(plan activities.GroupPlan) bool {
	return len(g.finished) >= plan.Samples || g.running == 0 || g.late && len(g.finished) >= plan.MinSamples
}

// hopeless reports whether too few games can still succeed.
func (g *games) hopeless(plan activities.GroupPlan) bool {
	return len(g.finished)+g.running < plan.MinSamples
}

// playEpisodes plays all games at once, the surplus ones included, until they are enough. It fails as soon as too few
// can succeed. Either way those still running are cancelled.
func playEpisodes(ctx workflow.Context, in GroupInput) (*games, error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()

	plan := in.Plan
	g := &games{running: plan.Samples + plan.Oversample, pages: gamePages(ctx, plan)}
	selector := workflow.NewSelector(ctx)
	if err := g.begin(ctx, selector, in); err != nil {
		return nil, err
	}
	timed := plan.Grace == 0
	for !g.enough(plan) {
		g.show(ctx, plan)
		selector.Select(ctx)
		if g.hopeless(plan) {
			return nil, g.failure
		}
		if !timed && len(g.finished) >= plan.MinSamples && !g.enough(plan) {
			timed = true
			selector.AddFuture(workflow.NewTimer(ctx, plan.Grace.Std()), func(workflow.Future) { g.late = true })
		}
	}
	return g, ctx.Err()
}

// begin has all games played: in lots that one task has room for each, if all of them are too large for it. The games
// of such a group have one priority, because all of them may have to go on at once.
func (g *games) begin(ctx workflow.Context, selector workflow.Selector, in GroupInput) error {
	lot, p := cmp.Or(in.GameLot, g.running), neverBegun
	if lot < g.running {
		p = onePriority
	}
	for sample := range g.running {
		if sample > 0 && sample%lot == 0 {
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil { // ends the task
				return err
			}
		}
		g.play(ctx, selector, in, sample, p)
	}
	return nil
}

// play has a game played with a priority, and again with another one when that has not finished it.
func (g *games) play(ctx workflow.Context, selector workflow.Selector, in GroupInput, sample int, p gamePriority) {
	long := workflow.WithActivityOptions(ctx, p.options(episodeActivity(in)))
	game := workflow.ExecuteActivity(long, acts.PlayEpisode, activities.EpisodeInput{Plan: in.Plan, Sample: sample})
	selector.AddFuture(game, func(f workflow.Future) {
		err := f.Get(ctx, nil)
		if next, more := p.after(ctx, err); more {
			g.play(ctx, selector, in, sample, next)
			return
		}
		g.running--
		if err != nil {
			g.failure = err
			return
		}
		g.finished = append(g.finished, sample)
	})
}

func discardGroup(ctx workflow.Context, in GroupInput, code rollout.Code) activities.GroupEnd {
	if errors.Is(ctx.Err(), workflow.ErrCanceled) {
		code = rollout.CodeCancelled
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	discard := activities.DiscardInput{Ref: in.Plan.Ref, Code: code}
	err := workflow.ExecuteActivity(ctx, acts.DiscardGroup, discard).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Error("discard group", "group", in.Plan.Ref.String(), "error", err)
	}
	return activities.GroupEnd{Seq: in.Plan.Ref.Seq, Code: code}
}

// executeShort executes an activity that takes a moment: within the workflow's task, which spares Temporal the activity
// and the task after it. What fails there for now is tried again as an activity, which Temporal shows and repeats.
func executeShort(ctx workflow.Context, result, activity, in any) error {
	if workflow.GetVersion(ctx, "short-in-task", workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
			StartToCloseTimeout: shortTime, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		err := workflow.ExecuteLocalActivity(local, activity, in).Get(ctx, result)
		if err == nil || activities.Final(err) || ctx.Err() != nil {
			return err
		}
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, shortActivity()), activity, in).Get(ctx, result)
}

const shortTime = 10 * time.Second

// shortActivity is for work on Redis and the like, which takes milliseconds: tried until it succeeds or fails for
// good. What a dead worker had begun is tried elsewhere after the first limit.
func shortActivity() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: shortTime,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second,
		},
	}
}

// episodeActivity is for games. A game's own deadline counts playing time only, and the player enforces it. The limit
// here only ends a game that will never be played, so it leaves room for hours in the queue.
func episodeActivity(in GroupInput) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           in.Games,
		StartToCloseTimeout: 24 * time.Hour,
		HeartbeatTimeout:    heartbeatTimeout(in.Plan.Timeouts.Heartbeat.Std()),
		WaitForCancellation: false,
		RetryPolicy: &temporal.RetryPolicy{
			// After the death of a worker the game is retried soon, however often it happens. Failures carry their own
			// delay, and say which attempt was the last.
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 1,
		},
	}
}

// Each heartbeat costs Temporal a transaction, some 2 ms of a core, and a long game sends one after the other. Dead
// workers are found sooner by their announcements in Redis (runkeeper.AbsentWorkers), so heartbeats are rare; they find
// what was not reported otherwise. Temporal enforces a heartbeat timeout that is shorter than an announcement holds.
const (
	announcedWithin = 10 * time.Second
	rareHeartbeat   = time.Minute
)

func heartbeatTimeout(asked time.Duration) time.Duration {
	if asked < announcedWithin {
		return asked
	}
	return max(asked, rareHeartbeat)
}
