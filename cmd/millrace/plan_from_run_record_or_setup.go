package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
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
