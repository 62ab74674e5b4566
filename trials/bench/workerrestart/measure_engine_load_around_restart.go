package workerrestart

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// restarts are the ways in which the worker ends.
var restarts = []struct {
	name   string
	signal syscall.Signal
}{{"stopped (SIGTERM)", syscall.SIGTERM}, {"killed (SIGKILL)", syscall.SIGKILL}}

// Measure restarts a worker in each way.
func Measure(ctx context.Context, cfg Config) (Result, error) {
	res := Result{Config: cfg, Machine: processortime.ThisMachine()}
	cfg.Say("starting Redis, Temporal, a server and two workers in %s", cfg.Dir)
	s, err := benchservice.Start(ctx, benchservice.Config{Programs: cfg.Programs, Dir: cfg.Dir,
		Workers: 2, Games: 4 * cfg.games(), After: cfg.After, Limit: cfg.Limit})
	if err != nil {
		return res, err
	}
	defer s.Stop()
	for i, r := range restarts {
		run := rollout.RunName(fmt.Sprintf("restart-%d", i))
		row, err := cfg.restart(ctx, s, run, r.signal)
		if err != nil {
			return res, fmt.Errorf("a worker is %s: %w", r.name, err)
		}
		row.Restart = r.name
		res.Rows = append(res.Rows, row)
	}
	res.LoadAfter = processortime.Load()
	return res, nil
}

// games is how many games of all powers keep a worker's queue from being empty when it has all slots.
func (c Config) games() int { return 2*(2*c.Limit)/benchservice.Powers + 2 }

// restart starts games, waits until both workers have more than they can send, and restarts one.
func (c Config) restart(ctx context.Context, s *benchservice.Service, run rollout.RunName,
	signal syscall.Signal) (Row, error) {
	if err := s.API.StartRun(ctx, s.Spec(run, benchservice.MaxPhases, 2*c.games(), 1)); err != nil {
		return Row{}, err
	}
	c.Say("run %s: waiting until both workers have requests queued", run)
	if err := c.saturated(ctx, s, run); err != nil {
		return Row{}, err
	}
	var row Row
	var err error
	c.Say("run %s: measuring for %v, and again from a worker's end on", run, c.Window)
	if row.Before, _, err = c.window(ctx, s); err != nil {
		return Row{}, err
	}
	if err := syscall.Kill(s.PID("worker-1"), signal); err != nil {
		return Row{}, err
	}
	if row.During, row.Most, err = c.window(ctx, s); err != nil {
		return Row{}, err
	}
	row.Ratio = row.During / row.Before
	return row, s.StopRun(ctx, run)
}

// saturated returns when two workers have requests of a run queued.
func (c Config) saturated(ctx context.Context, s *benchservice.Service, run rollout.RunName) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		type workers struct {
			Workers []enginestate.Worker `json:"workers"`
		}
		list, _, err := apiclient.Get[workers](ctx, s.API, "/v1/workers")
		if err != nil {
			return err
		}
		busy := 0
		for _, w := range list.Workers {
			if w.State == enginestate.WorkerAlive && w.Requests[run].Queued > 0 {
				busy++
			}
		}
		if busy == 2 {
			return c.wait(ctx, 3*c.After)
		}
		if err := c.wait(ctx, time.Second); err != nil {
			return fmt.Errorf("%d of 2 workers have requests queued: %w", busy, err)
		}
	}
}

// window is the share of the engines' slots that are in use while a window passes, and the most at one engine.
func (c Config) window(ctx context.Context, s *benchservice.Service) (used float64, most int, err error) {
	for _, e := range s.Fleet() {
		e.InUse.Since()
	}
	began := time.Now()
	if err := c.wait(ctx, c.Window); err != nil {
		return 0, 0, err
	}
	sum := time.Duration(0)
	for _, e := range s.Fleet() {
		slots, top := e.InUse.Since()
		sum += slots
		most = max(most, top)
	}
	all := time.Duration(c.Limit*len(s.Fleet())) * time.Since(began)
	return float64(sum) / float64(all), most, nil
}

func (c Config) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
