package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/millrace/millrace/internal/control/runkeeper"
	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// A run's workflow is terminated while it publishes and trains, and the fleet's with it. The run is found lost,
// says what to do, and lets go of its adapters; its neighbour is served. Resumed, it goes on at its version and
// step to its end. Its name is then not begun again by the same spec, even when Temporal has forgotten it, until the
// run is deleted: then it is another run, which has nothing of the first, and what that held is gone from Redis and
// from Temporal. The neighbour, lost in turn, goes on when it is started again, and can be stopped and deleted when
// it is lost. Where there is a retention, what is over is deleted. When Redis is emptied, a name still finds its run.
func TestARunHasAnEnd(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.while("a worker", func(ctx context.Context) error {
		return run(ctx, d.cfg.ForWorker(), wiring(d.cfg), slog.New(slog.DiscardHandler), quickPace)
	})
	d.train(6)
	d.reach(2)
	c := d.conns.Control
	first := d.status(d.run)
	d.terminate(c.Deployment.FleetID()) // who would find it
	d.lose(d.run)
	if err := <-d.trained; err == nil {
		t.Error("the trainer of a lost run was told nothing")
	}
	if wanted := d.wanted(d.run); len(wanted) > 0 {
		t.Errorf("the fleet still keeps %v", wanted)
	}
	neighbour := d.spec("neighbour", servedModel, 2)
	neighbour.Group = runspec.GroupSpec{Samples: 2, MinSamples: 2}
	d.start(neighbour)
	d.until("the neighbour's groups", func() error {
		counts, err := d.conns.Buffer.Counts(d.ctx, "neighbour")
		if err == nil && counts.Ready == 0 {
			err = errors.New("none is ready")
		}
		return err
	})
	if _, err := c.Change(d.ctx, d.run, spec.Change{Set: settings.Patch{"buffer.depth": 0}}); !rollout.Refused(err,
		rollout.Orphaned) {
		t.Errorf("a lost run was changed: %v", err)
	}

	var status runstatus.RunStatus
	err := d.again(func() (err error) { status, err = c.Change(d.ctx, d.run, spec.Pause(false)); return err })
	if err != nil || status.PolicyVersion < first.PolicyVersion || status.NextStep < first.NextStep ||
		status.Launched < first.Launched {
		t.Fatalf("it went on at step %d, version %d, group %d, after step %d, version %d, group %d: %v", status.NextStep,
			status.PolicyVersion,
			status.Launched, first.NextStep, first.PolicyVersion, first.Launched, err)
	}
	d.follow()
	d.completed(6)

	d.forget(c.Deployment.RunID(d.run))
	spec, err := d.conns.Buffer.Given(d.ctx, d.run)
	if err != nil {
		t.Fatal(err)
	}
	status, created, err := d.startAgain(spec)
	if err != nil || created || status.State != runstatus.RunCompleted || status.PolicyVersion == 0 {
		t.Errorf("started again it is %s at version %d, created %v: %v", status.State, status.PolicyVersion, created, err)
	}

	d.answers(http.MethodDelete, "/v1/runs/neighbour", nil, http.StatusConflict)
	d.lose("neighbour")
	if status, created, err := d.startAgain(neighbour); err != nil || created || status.State.Over() {
		t.Errorf("a lost run, started again, is %s, created %v: %v", status.State, created, err)
	}
	d.lose("neighbour")
	err = d.again(func() (err error) { status, err = c.Stop(d.ctx, "neighbour", "enough"); return err })
	if err != nil || status.State != runstatus.RunStopped ||
		status.Reason != "enough" {
		t.Errorf("a lost run, stopped, is %s (%s): %v", status.State, status.Reason, err)
	}
	d.answers(http.MethodDelete, "/v1/runs/neighbour", nil, http.StatusOK)
	d.answers(http.MethodDelete, "/v1/runs/rolling", nil, http.StatusOK)
	if text := d.answers(http.MethodGet, "/v1/runs/rolling", nil,
		http.StatusNotFound); !strings.Contains(text, "deleted") {
		t.Errorf("a deleted run: %s", text)
	}
	body, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	d.answers(http.MethodPost, "/v1/runs", body, http.StatusCreated)
	var again runstatus.RunStatus
	if err := json.Unmarshal([]byte(d.answers(http.MethodGet, "/v1/runs/rolling", nil, http.StatusOK)),
		&again); err != nil {
		t.Fatal(err)
	}
	if again.ID != "rolling@2" || again.Spec.Name != "rolling" || again.NextStep != 0 || again.PolicyVersion != 0 ||
		again.State.Over() {
		t.Errorf("the name used again: %+v", again)
	}
	d.follow()
	d.until("a version of the new run", func() error {
		for _, name := range d.wanted("rolling@2") {
			if strings.HasPrefix(name, "rolling@2-v") {
				return nil
			}
		}
		return fmt.Errorf("the fleet keeps %v", d.wanted("rolling@2"))
	})
	d.lose("rolling@2")
	d.answers(http.MethodDelete, "/v1/runs/rolling", nil, http.StatusOK) // a lost run
	d.answers(http.MethodPost, "/v1/runs", body, http.StatusCreated)
	d.answers(http.MethodPost, "/v1/runs/rolling/stop", nil, http.StatusOK)
	d.answers(http.MethodDelete, "/v1/runs/rolling", nil, http.StatusOK)
	d.answers(http.MethodPost, "/v1/runs", body, http.StatusCreated)
	d.answers(http.MethodDelete, "/v1/runs/rolling?force=true", nil, http.StatusOK)
	d.until("everything of the deleted runs to be removed", func() error {
		return d.nothingOf("rolling", "neighbour", "rolling@2", "rolling@3", "rolling@4")
	})

	d.start(d.spec("brief", servedModel, 1))
	if err := d.again(func() error { _, err := c.Stop(d.ctx, "brief", "enough"); return err }); err != nil {
		t.Fatal(err)
	}
	strict := &runkeeper.Keeper{
		Control: c, Buffer: d.conns.Buffer, Events: d.conns.Events,
		Retention: func() runkeeper.Retention { return runkeeper.Retention{For: time.Second} }, Pace: quickPace,
		Log: slog.New(slog.DiscardHandler),
	}
	d.while("another worker's keeper of runs", func(ctx context.Context) error { strict.Watch(ctx); return nil })
	d.until("a run to be deleted at the end of its retention", func() error {
		_, err := d.conns.Buffer.Status(d.ctx, "brief")
		if err == nil {
			return errors.New("it is there")
		}
		if rollout.Refused(err, rollout.NoSuchRun) {
			return nil
		}
		return err
	})

	brief := d.spec("brief@2", servedModel, 1000)
	d.start(brief)
	d.until("Temporal to list the new run", func() error {
		id, err := d.conns.Control.LaterLife(d.ctx, "brief")
		if err == nil && id != "brief@2" {
			err = fmt.Errorf("it is %s", id)
		}
		return err
	})
	d.answers(http.MethodPost, "/v1/runs/brief/trainer", nil, http.StatusOK)
	if err := d.conns.Redis.FlushDB(d.ctx).Err(); err != nil { // the name now looks as if it had never been used
		t.Fatal(err)
	}
	brief.Name = "brief"
	if status, created, err := d.startAgain(brief); err != nil || created || status.Spec.Name != "brief@2" {
		t.Errorf("started while Redis had forgotten it: %s, created %v: %v", status.Spec.Name, created, err)
	}
	account, err := d.conns.Buffer.Account(d.ctx, "brief@2")
	if err != nil || account.Confirmed() && account.Mark.Era < 2 {
		t.Errorf("what Redis had forgotten is served before the run has repaired it: %+v, %v", account.Mark, err)
	}
}

// quickPace is the pace of a worker that finds out soon that a run is lost.
var quickPace = runkeeper.Pace{Every: 200 * time.Millisecond, Ended: time.Second,
	Missing: runkeeper.DefaultPace().Missing}

// again repeats a call while Temporal does not answer in time: whoever is told that is told to try again.
func (d *deployment) again(call func() error) (err error) {
	d.t.Helper()
	d.until("Temporal to answer", func() error {
		if err = call(); rollout.Refused(err, rollout.Unavailable) {
			return err
		}
		return nil
	})
	return err
}

// startAgain starts a run, perhaps one that is there already.
func (d *deployment) startAgain(spec runspec.Spec) (status runstatus.RunStatus, created bool, err error) {
	d.t.Helper()
	err = d.again(func() (err error) { status, created, err = d.conns.Control.Start(d.ctx, spec); return err })
	return status, created, err
}

// lose terminates a run's workflow and waits until that is noticed.
func (d *deployment) lose(run rollout.RunName) {
	d.t.Helper()
	d.terminate(d.conns.Control.Deployment.RunID(run))
	d.until(fmt.Sprintf("run %s to be found lost", run), func() error { return d.is(run, runstatus.RunLost) })
}

func (d *deployment) status(run rollout.RunName) runstatus.RunStatus {
	d.t.Helper()
	status, err := d.conns.Buffer.Status(d.ctx, run)
	if err != nil {
		d.t.Fatal(err)
	}
	return status
}

func (d *deployment) is(run rollout.RunName, state runstatus.RunState) error {
	if status := d.status(run); status.State != state {
		return fmt.Errorf("it is %s", status.State)
	}
	return nil
}

func (d *deployment) terminate(id string) {
	d.t.Helper()
	if err := d.temporal.TerminateWorkflow(d.ctx, id, "", "a mistake"); err != nil {
		d.t.Fatal(err)
	}
}

// forget lets Temporal forget a workflow, as its retention does.
func (d *deployment) forget(id string) {
	d.t.Helper()
	d.until("the workflow's end", func() error {
		running, err := d.conns.Control.Drive(d.ctx, d.run)
		if err == nil && running.Running {
			err = errors.New("it is running")
		}
		return err
	})
	if err := d.conns.Control.Erase(d.ctx, d.run); err != nil {
		d.t.Fatal(err)
	}
	d.until("Temporal to forget "+id, func() error {
		drive, err := d.conns.Control.Drive(d.ctx, d.run)
		if err == nil && drive.Known {
			err = errors.New("it is known")
		}
		return err
	})
}

// wanted is the adapters that the fleet keeps for a run.
func (d *deployment) wanted(run rollout.RunName) (names []string) {
	d.t.Helper()
	wanted, err := d.conns.Registry.Wanted(d.ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, a := range wanted {
		if a.Run == run {
			names = append(names, a.Name)
		}
	}
	return names
}

// follow starts a trainer process on the run, whatever it has done.
func (d *deployment) follow() {
	go func() {
		d.trained <- demotrainer.Run(d.ctx, demotrainer.Config{
			Server: "http://" + d.cfg.Listen, Run: string(d.run), AdapterDir: filepath.Join(d.dir, "adapters"),
			Load: time.Millisecond, RefLogprobs: time.Millisecond, Publish: time.Millisecond, Train: 200 * time.Millisecond,
			HTTPClient: http.DefaultClient,
		})
	}()
}

// answers calls the API, and wants an answer with a status.
func (d *deployment) answers(method, path string, body []byte, want int) string {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.ctx, method, "http://"+d.cfg.Listen+path, strings.NewReader(string(body)))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		d.t.Fatalf("%s %s: status %d, want %d: %s %v", method, path, resp.StatusCode, want, text, err)
	}
	return string(text)
}

// nothingOf reports what Redis or Temporal still has of runs that were deleted, beside the marks that they were.
func (d *deployment) nothingOf(runs ...rollout.RunName) error {
	for _, run := range runs {
		keys, err := d.conns.Redis.Keys(d.ctx, "*{"+string(run)+"[}/]*").Result()
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, "}:gone") })
		if len(keys) > 0 {
			return fmt.Errorf("redis has %v", keys)
		}
		for _, id := range []string{"WorkflowId = 'millrace/run/%s'", "WorkflowId STARTS_WITH 'millrace/group/%s/'"} {
			list, err := d.temporal.ListWorkflow(d.ctx,
				&workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf(id, run)})
			if err != nil {
				return err
			}
			if n := len(list.GetExecutions()); n > 0 {
				return fmt.Errorf("Temporal has %d workflows with %s", n, fmt.Sprintf(id, run))
			}
		}
	}
	return nil
}
