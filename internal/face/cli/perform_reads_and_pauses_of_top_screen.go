package cli

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/top"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling/supply"
)

const (
	// topTimeout is how long the screen waits for an answer before it says that there is none.
	topTimeout = 10 * time.Second
	// topRuns is how many runs that go on the overview reads whole, and topAtOnce how many calls at a time.
	topRuns, topAtOnce = 20, 4
	// topSteps is how many of a run's latest steps are shown, and topGames how many of its games.
	topSteps, topGames = 100, 500
)

// topReader performs what the screen asks for.
type topReader struct {
	client Client
	now    func() time.Time

	mu    sync.Mutex
	steps map[rollout.RunName][]steprecord.StepRecord // completed ones, which do not change
}

func newTopReader(c Client, now func() time.Time) *topReader {
	return &topReader{client: c, now: now, steps: map[rollout.RunName][]steprecord.StepRecord{}}
}

// topError is an error as the screen asks about it.
type topError struct{ error }

func (e topError) Unwrap() error { return e.error }

// Unreachable reports whether the server did not answer, which passes by itself.
func (e topError) Unreachable() bool { return ExitCode(e.error) == ExitUnavailable }

func topErr(err error) error {
	if err == nil {
		return nil
	}
	return topError{err}
}

// do performs a command and answers with what came of it.
func (r *topReader) do(ctx context.Context, c top.Command) top.Event {
	ctx, cancel := context.WithTimeout(ctx, topTimeout)
	defer cancel()
	switch c := c.(type) {
	case top.ReadOverview:
		read, err := r.overview(ctx)
		read.At, read.Err = r.now(), topErr(err)
		return read
	case top.ReadRun:
		run, steps, err := r.run(ctx, c.Run)
		return top.RunRead{At: r.now(), Of: c.Run, Run: run, Steps: steps, Err: topErr(err)}
	case top.ReadGames:
		page, _, err := apiclient.Get[gamelist.Page](ctx, r.client.Client,
			fmt.Sprintf("%s/games?limit=%d&sort=%s", apiclient.RunPath(c.Run), topGames, c.Sort))
		return top.GamesRead{Of: c.Run, Page: page, Err: topErr(err)}
	case top.Pause:
		done := map[bool]string{true: "paused", false: "resumed"}[c.Paused]
		_, _, err := apiclient.Send[runstatus.RunStatus](ctx, r.client.Client, http.MethodPatch, apiclient.RunPath(c.Run),
			spec.Pause(c.Paused))
		if err != nil {
			return top.Acted{What: fmt.Sprintf("run %s is not %s", c.Run, done), Err: topErr(err)}
		}
		return top.Acted{What: fmt.Sprintf("run %s is %s", c.Run, done)}
	case top.Quit: // the program's own
	}
	return top.Ticked{At: r.now()}
}

// overview reads what is wrong, the runs, those that go on whole, the engines, and what scaling wants.
func (r *topReader) overview(ctx context.Context) (read top.Overview, err error) {
	status, _, err := apiclient.Get[api.DeploymentStatus](ctx, r.client.Client, "/v1/status")
	if err != nil {
		return read, err
	}
	read.Name = status.Name
	for _, t := range status.Problems {
		if t.Run == "" {
			read.Wrong = append(read.Wrong, t)
		}
	}
	if read.Unknown = !status.Redis.Answers; read.Unknown {
		return read, nil // what is wrong is all that is known
	}
	all, _, err := r.client.runs(ctx, false)
	if err != nil {
		return read, err
	}
	if read.Engines, _, err = r.client.Engines(ctx); err != nil {
		return read, err
	}
	scaled, _, err := apiclient.Get[supply.View](ctx, r.client.Client, "/v1/fleet")
	switch ExitCode(err) {
	case ExitOK:
		read.Fleet = &scaled
	case ExitNotFound: // nobody scales, or the server is older
	default:
		return read, err
	}
	runs := make([]tablerow.Run, len(all))
	read.Runs = runs
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(topAtOnce)
	whole := 0
	for i, one := range all {
		runs[i].RunStatus = one
		if one.State.Over() || whole == topRuns {
			continue
		}
		whole++
		g.Go(func() error {
			run, _, err := apiclient.Get[tablerow.Run](ctx, r.client.Client, apiclient.RunPath(runs[i].Name()))
			if err != nil {
				if ExitCode(err) == ExitNotFound { // deleted meanwhile
					return nil
				}
				return err
			}
			runs[i] = run
			for _, t := range status.Runs {
				if t.Run == run.Name().Plain() || t.Run == run.Name() {
					runs[i].Level, runs[i].Brief = t.Level, t.Brief
				}
			}
			return r.lastStep(ctx, &runs[i])
		})
	}
	return read, g.Wait()
}

// lastStep adds the record of a run's last step.
func (r *topReader) lastStep(ctx context.Context, run *tablerow.Run) error {
	done := run.NextStep - 1
	if done < 0 {
		return nil
	}
	r.mu.Lock()
	kept := r.steps[run.Name()]
	r.mu.Unlock()
	if n := len(kept); n > 0 && kept[n-1].Step == done {
		run.Last = &kept[n-1]
		return nil
	}
	record, _, err := apiclient.Get[steprecord.StepRecord](ctx, r.client.Client,
		fmt.Sprintf("%s/steps/%d", apiclient.RunPath(run.Name()), done))
	switch ExitCode(err) {
	case ExitOK:
		run.Last = &record
	case ExitUnavailable:
		return err
	}
	return nil // it is being written, or Redis has lost it
}

// run reads a run and its latest steps. Those that are completed are read once.
func (r *topReader) run(ctx context.Context, name rollout.RunName) (tablerow.Run, []steprecord.StepRecord, error) {
	run, _, err := apiclient.Get[tablerow.Run](ctx, r.client.Client, apiclient.RunPath(name))
	if err != nil {
		return run, nil, err
	}
	r.mu.Lock()
	kept := r.steps[name]
	r.mu.Unlock()
	if n := len(kept); n > 0 && kept[n-1].Step >= run.NextStep {
		kept = nil // the run was rewound
	}
	from := max(0, run.NextStep-topSteps)
	if n := len(kept); n > 0 {
		from = max(from, kept[n-1].Step+1)
	}
	p, _, err := apiclient.Get[api.StepList](ctx, r.client.Client,
		fmt.Sprintf("%s/steps?from=%d&limit=%d", apiclient.RunPath(name), from, topSteps))
	if err != nil {
		return run, nil, err
	}
	all := append(kept[:len(kept):len(kept)], p.Steps...)
	all = all[max(0, len(all)-topSteps):]
	done := 0
	for done < len(all) && all[done].Done {
		done++
	}
	r.mu.Lock()
	r.steps[name] = all[:done:done]
	r.mu.Unlock()
	if done > 0 {
		run.Last = &all[done-1]
	}
	return run, all, nil
}
