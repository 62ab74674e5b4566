package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/progressline"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/plan"
	"github.com/millrace/millrace/internal/simulate/plan/plantext"
	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
)

// planOptions are the flags of `millrace plan`.
type planOptions struct {
	file, server                    string
	engines, depths, groups, games  string
	price                           float64
	target                          time.Duration
	seeds                           int
	set, lose, slow                 []string
	publish                         time.Duration
	publishSet, priceSet, targetSet bool
	profile                         string
	format                          string
	workers                         int // simulations at once
}

func newPlanCommand(env environment) *cobra.Command {
	o := planOptions{workers: runtime.GOMAXPROCS(0)}
	cmd := &cobra.Command{
		Use:  "plan RUN | -f SETUP.yaml | -f RECORD.json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := cmd.Flags()
			o.publishSet, o.priceSet, o.targetSet = f.Changed("publish"), f.Changed("price"), f.Changed("target-step")
			return planRun(cmd.Context(), env, o, args, setup.Simulator())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", `a setup, a run spec or a run's record; "-" is standard input`)
	f.StringVar(&o.engines, "engines", "", "engines to try: 4, or 2,4,8, or 1..16 (default: up to twice those of now)")
	f.StringVar(&o.depths, "depth", "", "buffer depths to try (default: from 1 to two more than now)")
	f.StringVar(&o.groups, "groups", "", "groups per step to try (default: the run's)")
	f.StringVar(&o.games, "samples", "", "games of a group to try (default: the run's)")
	f.Float64Var(&o.price, "price", 0, "what an engine costs, in $ per hour")
	f.DurationVar(&o.target, "target-step", 0, "the step time that is wanted, such as 150s")
	f.IntVar(&o.seeds, "seeds", plan.DefaultSeeds, "simulations of each setting")
	f.StringArrayVar(&o.set, "set", nil, "KEY=VALUE of a setup, such as buffer.max_staleness=8; repeatable")
	f.StringArrayVar(&o.lose, "lose", nil, "what if engines die: N@STEP, such as 1@20; repeatable")
	f.StringArrayVar(&o.slow, "slow", nil, "what if an engine is slow: ENGINE=SPEED, such as 1=0.5; repeatable")
	f.DurationVar(&o.publish, "publish", 0, "what if publishing a version takes so long")
	f.StringVar(&o.profile, "profile", "", "hardware profile that a recorded run is calibrated with (default "+
		sim.DefaultProfile+")")
	f.StringVarP(&o.format, "output", "o", "table", "table or json")
	f.StringVar(&o.server, "server", env.Server(), "URL of the API server ($MILLRACE_SERVER)")
	return cmd
}

// planned is what `millrace plan -o json` writes.
type planned struct {
	Simulated   bool             `json:"simulated"` // always: no number of the plan was measured
	Plan        *plan.Plan       `json:"plan"`
	Calibration *calibratedFrom  `json:"calibration,omitempty"`
	Assumed     []sim.Assumption `json:"assumed,omitempty"`
	Next        []string         `json:"next"`
}

// calibratedFrom is how a recorded run became a setup.
type calibratedFrom struct {
	Steps      int                     `json:"steps"` // recorded
	Meets      bool                    `json:"meets_record"`
	Parameters []calibration.Parameter `json:"parameters"`
	Fit        calibration.Fit         `json:"fit"`
	Warnings   []string                `json:"warnings,omitempty"`
}

// planRun reads what is to be planned, plans it and writes what came out. Interrupted, it writes what is known.
func planRun(ctx context.Context, env environment, o planOptions, args []string, play plan.Simulate) error {
	request, err := o.request()
	if err != nil {
		return err
	}
	source, err := env.planSource(ctx, o, args)
	if err != nil {
		return err
	}
	request.Setup = source.setup
	o.defaultGrid(&request)
	if err := request.Validate(); err != nil {
		return usage("%v", err)
	}
	if o.format == "table" {
		if err := source.write(env); err != nil {
			return err
		}
	}
	progress := newPlanProgress(env, request)
	options := plan.Options{Simulate: play, Workers: o.workers, Now: time.Now, Tell: progress.tell}
	made, err := plan.Make(ctx, request, options)
	progress.End()
	if made == nil {
		return err
	}
	return errors.Join(env.writePlan(o, source, made), err)
}

// writePlan writes a plan as a table or as JSON.
func (e environment) writePlan(o planOptions, source planSource, made *plan.Plan) error {
	next := source.next(made)
	if o.format == "json" {
		enc := json.NewEncoder(e.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(planned{true, made, source.calibrated, source.assumed, append([]string{}, next...)})
	}
	if err := plantext.Write(e.Stdout, made, 0); err != nil {
		return err
	}
	if len(next) > 0 {
		fmt.Fprintln(e.Stdout, "\nNext:")
		for _, command := range next {
			fmt.Fprintln(e.Stdout, "  "+command)
		}
	}
	return nil
}

// request is what the flags ask.
func (o planOptions) request() (plan.Request, error) {
	r := plan.Request{Seeds: o.seeds, Price: o.price, TargetSec: o.target.Seconds()}
	switch {
	case o.format != "table" && o.format != "json":
		return r, usage("-o %s: use table or json", o.format)
	case o.seeds < 1 || o.seeds > maxSeeds:
		return r, usage("--seeds %d: want 1 to %d", o.seeds, maxSeeds)
	case o.priceSet && !(o.price > 0 && o.price < 1e6):
		return r, usage("--price %g: want what an engine costs in $ per hour, above 0", o.price)
	case o.targetSet && o.target <= 0:
		return r, usage("--target-step %v: want a time above 0, such as 150s", o.target)
	case o.publishSet && o.publish < 0:
		return r, usage("--publish %v: want a time, such as 60s", o.publish)
	}
	for _, f := range []struct {
		flag, text string
		into       *[]int
	}{
		{"engines", o.engines, &r.Grid.Engines}, {"depth", o.depths, &r.Grid.Depths},
		{"groups", o.groups, &r.Grid.Groups}, {"samples", o.games, &r.Grid.Samples},
	} {
		if f.text == "" {
			continue
		}
		values, err := plan.ParseValues(f.text)
		if err != nil {
			return r, usage("--%s %v", f.flag, err)
		}
		*f.into = values
	}
	for _, text := range o.lose {
		loss, err := plan.ParseLoss(text)
		if err != nil {
			return r, usage("--lose %v", err)
		}
		r.Conditions.Lose = append(r.Conditions.Lose, loss)
	}
	for _, text := range o.slow {
		slow, err := plan.ParseSlow(text)
		if err != nil {
			return r, usage("--slow %v", err)
		}
		r.Conditions.Slow = append(r.Conditions.Slow, slow)
	}
	if o.publishSet {
		publish := rollout.Duration(o.publish)
		r.Conditions.Publish = &publish
	}
	return r, nil
}

// defaultGrid tries what is near the setup where nothing is said: up to twice its engines, and two batches more.
func (o planOptions) defaultGrid(r *plan.Request) {
	if o.engines == "" {
		r.Grid.Engines = nearbyEngines(r.Setup.Fleet.Engines)
	}
	if o.depths == "" {
		for depth := 1; depth <= max(4, r.Setup.Buffer.Depth+2); depth++ {
			r.Grid.Depths = append(r.Grid.Depths, depth)
		}
	}
}

// nearbyEngines is 1 to twice as many, or eight numbers up to that of a large fleet.
func nearbyEngines(now int) []int {
	most, every := max(8, 2*now), 1
	if now > 8 {
		every = most / 8
	}
	var out []int
	for n := every; n <= most; n += every {
		out = append(out, n)
	}
	return append(out, now)
}

// planProgress shows how far a plan is.
type planProgress struct {
	*progressline.Line
	seeds     int
	announced bool
}

// long is how long a plan may take without saying what can be done about it.
const long = time.Minute

func newPlanProgress(env environment, r plan.Request) *planProgress {
	return &planProgress{Line: progressline.Start(env.Stderr, "planning"), seeds: r.Seeds}
}

func (p *planProgress) tell(now plan.Progress) {
	if !p.announced && now.Done < now.Of && now.Left > long {
		p.announced = true
		p.Say(fmt.Sprintf("%d settings, %d seeds each, will take about %v; Ctrl-C shows what is known by then, fewer "+
			"--seeds or a smaller grid take less", now.Of, p.seeds, now.Left.Round(time.Second)))
	}
	p.At(int64(now.Done), int64(now.Of), "settings", "")
}

// meetsRecord is the largest median error of step times with which a simulation is said to meet a record, as diagnosis
// asks of its replay.
const meetsRecord = 0.10

// recordFile reports whether a document is a run's record and no setup.
func recordFile(path string, data []byte) bool {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) || strings.HasSuffix(path, ".json.gz") {
		return true
	}
	var head struct {
		Format string          `json:"format"`
		Steps  json.RawMessage `json:"steps"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return false
	}
	return head.Format != "" || filepath.Ext(path) == ".json" && bytes.HasPrefix(bytes.TrimSpace(head.Steps), []byte("["))
}
