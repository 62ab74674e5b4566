package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/plan"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
)

// write says what the plan rests on: of a calibrated run, how well the simulation meets it.
func (s planSource) write(env environment) error {
	w := env.Stdout
	if s.calibrated == nil {
		fmt.Fprintf(w, "SIMULATED from %s: %s of profile %s, games from %s. Nothing was measured.\n", s.name,
			units.Counted(s.setup.Fleet.Engines, "engine"), s.setup.Fleet.Profile, s.setup.Workload.Source())
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
		fmt.Fprintf(w, "SIMULATED, calibrated from %s of %s: %s.\n", units.Counted(c.Steps, "step"), s.name, fit)
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
