package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// ask calls the API and answers the status, and the body as far as it fits into what is wanted.
func (d *deployment) ask(method, path, body string, into any) (int, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.ctx, method, "http://"+d.cfg.Listen+path, bytes.NewReader([]byte(body)))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && into != nil && resp.StatusCode < 300 {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestFailuresAreSeen goes through the real server and the real worker: a run of which nobody plays the games,
// whose change nobody takes, whose requests all end by their deadline, and a worker that is there, and then is not.
func TestFailuresAreSeen(t *testing.T) {
	d := newDeployment(t)
	spec := spec.Default()
	spec.Name, spec.Model, spec.Steps = d.run, "Qwen/Qwen2.5-7B-Instruct", 2
	spec.Environment = runspec.Environment{Kind: tictactoe.Kind}
	spec.Group = runspec.GroupSpec{Samples: 3, MinSamples: 3}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, 2
	spec.Timeouts.Completion = rollout.Duration(time.Millisecond)
	spec.Timeouts.Phase = rollout.Duration(time.Minute) // not the first deadline, on a slow machine either
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	d.until("the run to be started", func() error {
		if status, text := d.ask("POST", "/v1/runs", string(text), nil); status != http.StatusCreated {
			return errors.New(text)
		}
		return nil
	})
	began := time.Now()
	if status, text := d.ask("PATCH", "/v1/runs/rolling", `{"buffer":{"depth":2}}`, nil); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "no worker is alive") || time.Since(began) > 10*time.Second {
		t.Errorf("a change that no worker takes: %d %s after %v", status, text, time.Since(began))
	}

	ctx, stop := context.WithCancel(d.ctx)
	ended := make(chan error, 1)
	go func() { ended <- runWorker(ctx, d.cfg, slog.New(slog.DiscardHandler)) }()
	var run struct {
		Attempts runstatus.AttemptCounts `json:"attempts"`
		Alarms   []runstatus.Alarm
		Waits    []struct{ What, Detail string }
	}
	d.until("failed attempts, with their error and an alarm", func() error {
		d.ask("GET", "/v1/runs/rolling", "", &run)
		worst, failing := run.Attempts.Worst()
		if !failing || len(run.Alarms) != 1 || run.Alarms[0].Code != runstatus.AlarmGamesFail ||
			run.Waits[0].What != "success" {
			return fmt.Errorf("%+v", run)
		}
		if worst.Code != "timeout" || !strings.HasPrefix(worst.LastGame, "rolling/") ||
			!strings.Contains(run.Alarms[0].Text, worst.Last) {
			t.Errorf("%+v", run)
		}
		return nil
	})
	for _, what := range []string{`"kind":"alarm_changed"`, `"cause":"games_fail"`} {
		d.until(what, func() error {
			_, events := d.ask("GET", "/v1/runs/rolling/events?limit=1000", "", nil)
			_, report := d.ask("GET", "/v1/runs/rolling/diagnosis", "", nil)
			if !strings.Contains(events+report, what) {
				return errors.New("it is not there")
			}
			return nil
		})
	}
	worker := func(state enginestate.WorkerState) func() error {
		return func() error {
			var list struct{ Workers []enginestate.Worker }
			d.ask("GET", "/v1/workers", "", &list)
			if len(list.Workers) != 1 || list.Workers[0].State != state {
				return fmt.Errorf("workers: %+v", list.Workers)
			}
			w := list.Workers[0]
			if w.ID == "" || w.Host == "" || w.Version == "" || w.Slots < 1 || w.SlotsFrom == "" ||
				w.StartedAt.IsZero() || w.LastSeen.IsZero() {
				t.Errorf("%+v", w)
			}
			return nil
		}
	}
	d.until("a worker in the list", worker(enginestate.WorkerAlive))
	stop()
	if err := <-ended; err != nil {
		t.Errorf("worker: %v", err)
	}
	d.until("a stopped worker in the list", worker(enginestate.WorkerStopped))
	d.until("an alarm that there is none", func() error {
		d.ask("GET", "/v1/runs/rolling", "", &run)
		if len(run.Alarms) == 0 || run.Alarms[0].Code != runstatus.AlarmNoWorker || run.Waits[0].What != "worker" {
			return fmt.Errorf("%+v", run)
		}
		return nil
	})
}
