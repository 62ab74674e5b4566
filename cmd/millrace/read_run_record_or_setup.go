package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/plan"
	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
)

// planSource is what a plan is made of: a setup, and where it is from.
type planSource struct {
	name       string // of the run or the file
	setup      sim.Setup
	assumed    []sim.Assumption
	calibrated *calibratedFrom // nil of a setup that was read
	live       *runstatus.RunStatus
	set        []string // what was given with --set
}

// planSource reads the run, the record or the setup that is to be planned.
func (e environment) planSource(ctx context.Context, o planOptions, args []string) (planSource, error) {
	switch {
	case len(args) == 1 && o.file != "":
		return planSource{}, usage("RUN %s or -f %s: name one", args[0], o.file)
	case len(args) == 1:
		return e.planOfRun(ctx, o, rollout.RunName(args[0]))
	case o.file == "":
		return planSource{}, usage("name a run, or a setup or a record with -f; examples are in config/setups")
	}
	data, err := e.ReadFile(o.file)
	if err != nil {
		return planSource{}, fmt.Errorf("plan: %w", err)
	}
	if recordFile(o.file, data) {
		record, err := runrecord.Read(o.file, bytes.NewReader(data))
		if err != nil {
			return planSource{}, err
		}
		return calibrate(ctx, o, o.file, record)
	}
	if o.profile != "" {
		return planSource{}, usage("--profile is what a recorded run is calibrated with; for a setup: --set fleet.profile=%s",
			o.profile)
	}
	setup, assumed, err := setup.Read(o.file, data, o.set)
	if err != nil {
		return planSource{}, err
	}
	return planSource{name: o.file, setup: setup, assumed: assumed, set: o.set}, nil
}

func (e environment) planOfRun(ctx context.Context, o planOptions, run rollout.RunName) (planSource, error) {
	if err := run.Validate(); err != nil {
		return planSource{}, usage("%v; a file is named with -f", err)
	}
	client, err := e.Client(o.server)
	if err != nil {
		return planSource{}, err
	}
	record, err := client.Record(ctx, run, time.Now())
	if err != nil {
		return planSource{}, err
	}
	source, err := calibrate(ctx, o, string(run), record)
	source.live = &record.Run
	return source, err
}

// calibrate makes a setup of a record, with what --set says of it.
func calibrate(ctx context.Context, o planOptions, name string, record *runrecord.Record) (planSource, error) {
	c, err := calibration.Calibrate(ctx, record, calibration.Options{Profile: o.profile})
	if errors.Is(err, calibration.ErrUndetermined) {
		return planSource{}, fmt.Errorf("calibrate from %s: %w; plan when more steps are done, or from a setup: "+
			"millrace plan -f SETUP.yaml", name, err)
	}
	if err != nil {
		return planSource{}, fmt.Errorf("calibrate from %s: %w", name, err)
	}
	s := planSource{name: name, setup: c.Setup, calibrated: &calibratedFrom{
		Steps: len(record.Done()), Meets: meets(c.Fit),
		Parameters: c.Parameters, Fit: c.Fit, Warnings: c.Warnings,
	}}
	if len(o.set) == 0 {
		return s, nil
	}
	named := c.Setup
	if named.Workload.Recorded != nil {
		named.Workload.Recorded = &sim.RecordedGames{File: name} // a file has not the games themselves
	}
	document, err := json.Marshal(named)
	if err != nil {
		return planSource{}, fmt.Errorf("the setup of %s: %w", name, err)
	}
	s.setup, _, err = setup.Read("the setup of "+name, document, o.set)
	if recorded := s.setup.Workload.Recorded; recorded != nil && c.Setup.Workload.Recorded != nil {
		*recorded = *c.Setup.Workload.Recorded
	}
	return s, err
}

// meets reports whether a simulation meets the record well enough to be trusted with a change.
func meets(fit calibration.Fit) bool {
	return fit.MedianError <= meetsRecord && offBy(fit.MeanStep) <= meetsRecord
}

// offBy is how far a simulated quantity is from the recorded one, as a share of it.
func offBy(p calibration.Pair) float64 {
	if p.Recorded == 0 {
		return 0
	}
	return math.Abs(p.Simulated/p.Recorded - 1)
}

// write says what the plan rests on: of a calibrated run, how well the simulation meets it.
func (s planSource) write(env environment) error {
	w := env.Stdout
	if s.calibrated == nil {
		fmt.Fprintf(w, "SIMULATED from %s: %s of profile %s, games from %s. Nothing was measured.\n", s.name,
			counted(s.setup.Fleet.Engines, "engine"), s.setup.Fleet.Profile, s.setup.Workload.Source())
		for _, a := range s.assumed {
			if a.From == sim.FromDefault {
				fmt.Fprintf(w, "  assumed: %s = %s\n", a.Key, a.Value)
			}
		}
		fmt.Fprintln(w)
		return nil
	}
	c := s.calibrated
	fit := fmt.Sprintf("step times are met within %s (median), steady ones within %s in the mean; requests take "+
		"%s recorded, %s simulated", units.Percent(c.Fit.MedianError), units.Percent(offBy(c.Fit.MeanStep)),
		requestTime(c.Fit.RequestSec.Recorded), requestTime(c.Fit.RequestSec.Simulated))
	if !c.Meets {
		fmt.Fprintf(w, "THE SIMULATION DOES NOT MEET THE RECORD of %s: %s.\nTake the plan for no more than a comparison of "+
			"settings. More would decide: a record of more steps, of a fleet that did not change, or\na GPU's own profile "+
			"(millrace engine calibrate URL) with --profile.\n", s.name, fit)
	} else {
		fmt.Fprintf(w, "SIMULATED, calibrated from %s of %s: %s.\n", counted(c.Steps, "step"), s.name, fit)
	}
	for _, p := range c.Parameters {
		if p.From != calibration.Measured {
			fmt.Fprintf(w, "  %s: %s = %s (%s)\n", p.From, p.Name, p.Value, p.How)
		}
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "  note: %s\n", warning)
	}
	fmt.Fprintln(w)
	return nil
}

// next is the commands that do what is recommended: to the live run, or to a simulation of the setup.
func (s planSource) next(p *plan.Plan) []string {
	if len(p.Recommendations) == 0 || p.Recommendations[0].Setting == nil {
		return nil
	}
	to := *p.Recommendations[0].Setting
	b := s.setup.Buffer
	var changes []string
	if to.Depth != b.Depth {
		changes = append(changes, fmt.Sprintf("buffer.depth=%d", to.Depth))
	}
	if to.Groups != b.GroupsPerStep {
		changes = append(changes, fmt.Sprintf("buffer.groups_per_step=%d", to.Groups))
	}
	if to.Samples != s.setup.Group.Samples {
		changes = append(changes, fmt.Sprintf("group.samples=%d", to.Samples))
	}
	switch {
	case s.live != nil && !s.live.State.Over():
		return append(liveChanges(s.name, changes), engineChanges(to.Engines-s.setup.Fleet.Engines)...)
	case s.calibrated != nil && len(changes) > 0:
		return []string{"in the spec of the next run: " + strings.Join(changes, " ")}
	case s.calibrated != nil:
		return nil
	}
	changes = append(changes, fmt.Sprintf("fleet.engines=%d", to.Engines))
	return []string{simulateCommand(s.name, slices.Concat(s.set, changes))}
}

// liveChanges sets what can be changed while a run is going on.
func liveChanges(run string, changes []string) []string {
	var now, later []string
	for _, setting := range changes {
		key, _, _ := strings.Cut(setting, "=")
		if slices.ContainsFunc(spec.Live(), func(k settings.Key) bool { return k.Path == key }) {
			now = append(now, setting)
		} else {
			later = append(later, setting)
		}
	}
	var out []string
	if len(now) > 0 {
		out = append(out, fmt.Sprintf("millrace run set %s %s", run, strings.Join(now, " ")))
	}
	if len(later) > 0 {
		out = append(out, "in the spec of the next run: "+strings.Join(later, " "))
	}
	return out
}

// engineChanges adds engines one by one, or says how many may go.
func engineChanges(more int) []string {
	if more < 0 {
		return slices.Repeat([]string{"millrace engine remove ID"}, -more)
	}
	return slices.Repeat([]string{"millrace engine add URL"}, more)
}

// requestTime is the time of a request, which may be short, as in a demo that is sped up.
func requestTime(sec float64) string {
	if sec < 1 {
		return units.Number(1000*sec) + " ms"
	}
	return units.Seconds(sec)
}
