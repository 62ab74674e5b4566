// Package noisyneighbours measures what a run feels of the others. It starts the whole service as real processes,
// trains one healthy run with the demo trainer, and disturbs it in one way after another: other runs, other trainers,
// strangers at the API, engines that misbehave. Each row of its report says how long a step of the healthy run took,
// next to an undisturbed one measured just before, how fast granted batches were claimed, and how much memory the
// service took.
//
// Times on a shared machine mean little by themselves: the bounds are ratios, and a row that breaks one is measured
// once more, on a fresh stack. Start reading at Run; the disturbances are listed in disturbance_list.go.
package noisyneighbours

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/trials/stack"
)

// Config says what to run.
type Config struct {
	stack.Programs
	Dir string // databases, logs, adapters and journals are written below it

	Only    []string      // names of disturbances; none: all
	Window  time.Duration // how long each disturbance lasts at least
	Confirm bool          // whether a row that breaks a bound is measured once more before it counts
	Log     io.Writer     // what happens, a line each
}

// DefaultWindow holds a dozen undisturbed steps.
const DefaultWindow = 12 * time.Second

// The bounds that a healthy run and the service must keep.
const (
	MaxRatio    = 1.5              // of the time per step to the undisturbed one
	MaxClaim    = time.Second      // 99th percentile of claims of a granted batch
	MaxMemory   = 300 << 20        // resident bytes of any server or worker
	MaxNewGroup = 10 * time.Second // from a disturbance's start until a group launched after it is finished
)

// Row is what was measured beside one disturbance.
type Row struct {
	Name        string   `json:"name"`
	What        string   `json:"what"`
	Note        string   `json:"note,omitempty"` // how the disturbance itself was answered
	Undisturbed float64  `json:"undisturbed_step_s"`
	Step        float64  `json:"step_s"`     // mean time per step, the one in progress at the end included
	StepMax     float64  `json:"step_max_s"` // longest step
	Steps       int      `json:"steps"`
	Ratio       float64  `json:"ratio"`
	ClaimP50    float64  `json:"claim_p50_s"`
	ClaimP99    float64  `json:"claim_p99_s"`
	NewGroup    float64  `json:"new_group_s"`    // until a group launched after the start was finished; below zero: never
	Dropped     int64    `json:"dropped_groups"` // of the healthy run
	ServerBytes int64    `json:"server_peak_bytes"`
	WorkerBytes int64    `json:"worker_peak_bytes"` // of the worker that took most
	Broken      []string `json:"broken,omitempty"`  // bounds, in words
	Repeated    bool     `json:"repeated,omitempty"`
}

// Report is all rows.
type Report struct {
	Rows   []Row `json:"rows"`
	Broken int   `json:"broken"` // rows that break a bound
}

// Run measures beside one disturbance after another. The error is about the trial itself; broken bounds are in the
// report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	chosen, err := choose(cfg.Only)
	if err != nil {
		return Report{}, err
	}
	t := &trial{cfg: cfg}
	defer t.close()
	var report Report
	for _, d := range chosen {
		row, err := t.row(ctx, d)
		if err == nil && len(row.Broken) > 0 && cfg.Confirm {
			t.say("%s: %s; measuring it once more", d.name, strings.Join(row.Broken, ", "))
			t.close()
			row, err = t.row(ctx, d)
			row.Repeated = true
		}
		if err != nil {
			return report, fmt.Errorf("%s: %w", d.name, err)
		}
		if len(row.Broken) > 0 {
			report.Broken++
		}
		report.Rows = append(report.Rows, row)
		t.say("%-14s ratio %.2f, claims p99 %.2f s, worker %d MB, server %d MB %s", row.Name, row.Ratio, row.ClaimP99,
			row.WorkerBytes>>20, row.ServerBytes>>20, strings.Join(row.Broken, ", "))
	}
	return report, nil
}

// Names lists the disturbances, with what each does.
func Names() (names, what []string) {
	for _, d := range disturbances() {
		names, what = append(names, d.name), append(what, d.what)
	}
	return names, what
}

func choose(only []string) ([]disturbance, error) {
	all := disturbances()
	if len(only) == 0 {
		return all, nil
	}
	var chosen []disturbance
	for _, name := range only {
		i := slices.IndexFunc(all, func(d disturbance) bool { return d.name == name })
		if i < 0 {
			names, _ := Names()
			return nil, fmt.Errorf("no disturbance is called %q; there are %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// trial is the stack that serves until a disturbance has spoilt it.
type trial struct {
	cfg    Config
	site   *site
	stacks int
}

func (t *trial) say(format string, args ...any) {
	if t.cfg.Log != nil {
		fmt.Fprintf(t.cfg.Log, format+"\n", args...) // a log that cannot be written stops nothing
	}
}

func (t *trial) close() {
	if t.site != nil {
		t.site.stop()
		t.site = nil
	}
}

// row measures the healthy run without and with the disturbance. Afterwards the stack is kept if the disturbance leaves
// nothing behind and the run is well again.
func (t *trial) row(ctx context.Context, d disturbance) (Row, error) {
	if t.site == nil {
		var err error
		t.stacks++
		if t.site, err = startSite(ctx, t.cfg, t.stacks); err != nil {
			return Row{}, fmt.Errorf("start the service: %w", err)
		}
	}
	s := t.site
	calm, err := s.measure(ctx, undisturbedSteps, t.cfg.Window/2, maxUndisturbed)
	if err != nil {
		return Row{}, err
	}
	disturbing, stop := context.WithCancel(ctx)
	defer stop()
	type ending struct {
		note string
		err  error
	}
	ended := make(chan ending, 1)
	go func() {
		note, err := d.disturb(disturbing, s)
		ended <- ending{note, err}
	}()
	disturbed, err := s.measure(ctx, undisturbedSteps, t.cfg.Window, 2*t.cfg.Window+d.once)
	stop()
	end := <-ended
	if err != nil {
		return Row{}, err
	}
	disturbed.forgive(d.once, calm.mean())
	row := compare(d, calm, disturbed)
	row.Note = end.note
	if end.err != nil {
		row.Broken = append(row.Broken, end.err.Error())
	}
	if d.spoils || len(row.Broken) > 0 {
		t.close()
		return row, ctx.Err()
	}
	return row, ctx.Err()
}

// An undisturbed measurement takes so many steps, however long they take within reason.
const (
	undisturbedSteps = 6
	maxUndisturbed   = time.Minute
)

// compare makes a row of two measurements, and says which bounds are broken.
func compare(d disturbance, calm, disturbed measurement) Row {
	r := Row{
		Name: d.name, What: d.what, Undisturbed: calm.mean(),
		Step: disturbed.mean(), StepMax: disturbed.longest(), Steps: len(disturbed.steps),
		ClaimP50: disturbed.claim(0.5), ClaimP99: disturbed.claim(0.99), NewGroup: disturbed.newGroup,
		Dropped: disturbed.dropped, ServerBytes: disturbed.peaks["server"], Broken: disturbed.ended,
	}
	r.Ratio = r.Step / max(r.Undisturbed, 1e-9)
	for name, bytes := range disturbed.peaks {
		if strings.HasPrefix(name, "worker") {
			r.WorkerBytes = max(r.WorkerBytes, bytes)
		}
	}
	broken := func(when bool, format string, args ...any) {
		if when {
			r.Broken = append(r.Broken, fmt.Sprintf(format, args...))
		}
	}
	broken(r.Ratio > MaxRatio, "a step takes %.1f times as long", r.Ratio)
	broken(r.ClaimP99 > MaxClaim.Seconds(), "claims p99 %.1f s", r.ClaimP99)
	broken(r.NewGroup < 0 || r.NewGroup > MaxNewGroup.Seconds(), "no new group within %v", MaxNewGroup)
	broken(r.Dropped > 0, "%d groups of the run dropped", r.Dropped)
	broken(r.ServerBytes > MaxMemory, "server takes %d MB", r.ServerBytes>>20)
	broken(r.WorkerBytes > MaxMemory, "a worker takes %d MB", r.WorkerBytes>>20)
	return r
}
