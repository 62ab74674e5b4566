package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/process/temporalcli"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/workflows"
)

// lane is a task queue of games on a real server, with a worker that plays one at a time.
type lane struct {
	t      *testing.T
	client client.Client
	began  chan rollout.EpisodeRef
	ends   chan error // of the game that is being played
}

// player is what Temporal calls the worker that plays.
const player = "worker-1"

func newLane(t *testing.T) *lane {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Temporal server; run without -short")
	}
	args := temporalcli.DevServer("0")
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: temporalCLI(t), LogLevel: "error", ClientOptions: &client.Options{Logger: quiet},
		ExtraArgs: args[slices.Index(args, "--dynamic-config-value"):],
	})
	if err != nil {
		t.Fatal("start the Temporal dev server:", err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	c := server.Client()
	l := &lane{t: t, client: c, began: make(chan rollout.EpisodeRef), ends: make(chan error)}
	control := worker.New(c, "lane-control", worker.Options{})
	workflows.Register(control)
	games := worker.New(c, "lane-games", worker.Options{MaxConcurrentActivityExecutionSize: 1,
		DisableWorkflowWorker: true, Identity: player})
	named := func(to worker.Worker, name string, f any) {
		to.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	named(control, "PrepareGroup", func(context.Context, activities.GroupPlan) (activities.Prepared, error) {
		return activities.Prepared{}, nil
	})
	named(control, "CommitGroup", func(context.Context, activities.CommitInput) (activities.Committed, error) {
		return activities.Committed{}, nil
	})
	named(games, "PlayEpisode", func(_ context.Context, in activities.EpisodeInput) (activities.EpisodeResult, error) {
		l.began <- rollout.EpisodeRef{GroupRef: in.Plan.Ref, Sample: in.Sample}
		return activities.EpisodeResult{}, <-l.ends
	})
	for _, w := range []worker.Worker{control, games} {
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
	}
	return l
}

func (l *lane) id(seq int) string { return workflows.Deployment("lane").GroupID(ref(seq)) }

func ref(seq int) rollout.GroupRef { return rollout.GroupRef{Run: "lane", Seq: rollout.GroupSeq(seq)} }

// launch starts a group, whose environment has so many bytes of options, and waits until its games wait or are played.
func (l *lane) launch(seq, samples, bytes int) {
	l.t.Helper()
	in := workflows.GroupInput{Run: "nobody", Games: "lane-games", GameLot: min(samples, 30)}
	in.Plan.Ref = ref(seq)
	in.Plan.GroupSpec = runspec.GroupSpec{Samples: samples, MinSamples: samples}
	in.Plan.Environment.Options, _ = json.Marshal(map[string]string{"rules": strings.Repeat("x", bytes)})
	in.Plan.Timeouts.Heartbeat = rollout.Duration(time.Minute)
	options := client.StartWorkflowOptions{ID: l.id(seq), TaskQueue: "lane-control"}
	if _, err := l.client.ExecuteWorkflow(l.t.Context(), options, workflows.Group, in); err != nil {
		l.t.Fatal(err)
	}
	l.await(seq, samples, "")
}

// await waits until so many games of a group are pending, of which one has another activity than before.
func (l *lane) await(seq, games int, before string) (activityID string) {
	l.t.Helper()
	err := retry.Within(l.t.Context(), patience, 20*time.Millisecond, func(ctx context.Context) error {
		desc, err := l.client.DescribeWorkflowExecution(ctx, l.id(seq), "")
		if err != nil {
			return err
		}
		pending := slices.DeleteFunc(desc.GetPendingActivities(), isNoGame)
		if len(pending) != games || pending[0].GetActivityId() == before {
			return fmt.Errorf("group %d has %d games in its queue, want %d", seq, len(pending), games)
		}
		activityID = pending[0].GetActivityId()
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return activityID
}

// queued waits until so many games are in the queue: a workflow's history has them first.
func (l *lane) queued(games int64) {
	l.t.Helper()
	in := &workflowservice.DescribeTaskQueueRequest{Namespace: "default", ReportStats: true,
		TaskQueue: &taskqueue.TaskQueue{Name: "lane-games"}, TaskQueueType: enums.TASK_QUEUE_TYPE_ACTIVITY}
	err := retry.Within(l.t.Context(), patience, 20*time.Millisecond, func(ctx context.Context) error {
		queue, err := l.client.WorkflowService().DescribeTaskQueue(ctx, in)
		if err != nil {
			return err
		}
		if n := queue.GetStats().GetApproximateBacklogCount(); n != games {
			return fmt.Errorf("%d games are in the queue, want %d", n, games)
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

func isNoGame(a *workflow.PendingActivityInfo) bool {
	return a.GetActivityType().GetName() != "PlayEpisode"
}

// A game that was begun goes on before games that were not, which are of younger groups. And the games of a group are
// started however large they are.
func TestGamesThatWereBegunGoFirst(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	l.launch(0, 1, 0)
	order := []rollout.GroupSeq{(<-l.began).Seq}
	first := l.await(0, 1, "")
	for seq := range 5 {
		l.launch(1+seq, 4, 0)
	}
	l.ends <- errors.New("its engine broke off")
	order = append(order, (<-l.began).Seq) // it took the slot before the workflow has heard
	l.await(0, 1, first)
	l.queued(5 * 4)
	for range 20 {
		l.ends <- nil
		order = append(order, (<-l.began).Seq)
	}
	l.ends <- nil
	l.launch(6, 100, 60_000) // 6 MB; a workflow task that starts all of it at once can never be completed
	if at := slices.Index(order[1:], 0) + 1; at < 1 || at > 3 {
		t.Errorf("games began in the order %v, the oldest group's again as number %d", order, at)
	}
	var end activities.GroupEnd
	if err := l.client.GetWorkflow(t.Context(), l.id(0), "").Get(t.Context(), &end); err != nil {
		t.Errorf("the oldest group: %v", err)
	}
}

// The attempts that are with a worker which is gone end, and no others; the game goes on at once.
func TestGamesOfAWorkerThatIsGoneGoOn(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	l.launch(0, 2, 0)
	first := <-l.began // the other one waits for the slot
	c := &workflows.Client{Temporal: l.client, Namespace: "default", Deployment: "lane"}
	release := func(gone string, want int) {
		t.Helper()
		n, err := c.ReleaseGames(t.Context(), ref(0), func(worker string) bool { return worker == gone })
		if err != nil || n != want {
			t.Errorf("released %d games of %s, %v; want %d", n, gone, err, want)
		}
	}
	release("worker-2", 0)
	release(player, 1)
	l.ends <- errors.New("nobody hears this")
	played := map[rollout.EpisodeRef]int{}
	for range 2 {
		played[<-l.began]++
		l.ends <- nil
	}
	if played[first] != 1 || len(played) != 2 {
		t.Errorf("after the release of %v were played %v", first, played)
	}
	var end activities.GroupEnd
	if err := l.client.GetWorkflow(t.Context(), l.id(0), "").Get(t.Context(), &end); err != nil {
		t.Error(err)
	}
	if n, err := c.ReleaseGames(t.Context(), ref(9), func(string) bool { return true }); n != 0 || err != nil {
		t.Errorf("of a group that is not there: %d, %v", n, err)
	}
}
