package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis/loadprobe"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// probed is a load probe with its outcome.
type probed struct {
	Run      rollout.RunName     `json:"run"`
	Probe    runstatus.LoadProbe `json:"probe"`
	InFlight float64             `json:"in_flight_per_engine"` // before it
	*loadprobe.Answer
}

// probeFlags is a probe as the command line asks for it; 0 leaves a figure to the service.
type probeFlags struct {
	begin, end   bool
	steps, limit int
}

func (p *probeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&p.begin, "probe", false, "find out whether the engines are saturated, by giving them less to do")
	f.IntVar(&p.steps, "probe-steps", 0, "with --probe: whole steps that are played under the limit (default 2)")
	f.IntVar(&p.limit, "probe-in-flight", 0,
		"with --probe: requests in flight per engine (default half of what the run has now)")
	f.BoolVar(&p.end, "end-probe", false, "end the probe under way")
	cmd.MarkFlagsMutuallyExclusive("probe", "end-probe")
}

func (p probeFlags) check() error {
	if p.steps < 0 || p.limit < 0 {
		return Usage("--probe-steps and --probe-in-flight: a number above 0 is needed")
	}
	if !p.begin && (p.steps > 0 || p.limit > 0) {
		return Usage("--probe-steps and --probe-in-flight say how to probe: add --probe")
	}
	return nil
}

func (s *session) probe(ctx context.Context, c Client, run rollout.RunName, p probeFlags) error {
	path := apiclient.RunPath(run) + "/probe"
	if p.end {
		return s.endProbe(ctx, c, run, path)
	}
	begun, a, err := apiclient.Send[probed](ctx, c.Client, http.MethodPost, path, struct {
		Steps int `json:"steps,omitempty"`
		Limit int `json:"max_in_flight_per_engine,omitempty"`
	}{p.steps, p.limit})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(a.Body, &begun.Probe); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	begun.Run = run
	s.Say("probing %s: at most %d requests in flight per engine, where it has %s now, until step %d is claimed, or "+
		"for %v", run, begun.Probe.Limit, units.Number(begun.InFlight), begun.Probe.LastStep,
		begun.Probe.Until.Sub(begun.Probe.Since).Round(time.Second))
	s.Say("it ends by itself, also without this command; to end it now: millrace diagnose %s --end-probe", run)
	return s.followProbe(ctx, c, begun)
}

func (s *session) endProbe(ctx context.Context, c Client, run rollout.RunName, path string) error {
	_, a, err := apiclient.Send[runstatus.RunStatus](ctx, c.Client, http.MethodDelete, path, nil)
	if err != nil {
		return err
	}
	s.Say("the probe of %s is over; its limit is taken back", run)
	return s.show(a.Body, nil)
}

// probeUntold is how many times a run may be asked before it reports its probe: the report comes a moment after the
// order.
const probeUntold = 10

// probeIsGone reports whether a probe was ended before its steps were played.
func probeIsGone(run runstatus.RunStatus, p runstatus.LoadProbe, untold int) bool {
	return run.State.Over() || run.LoadProbe == nil && run.NextStep < p.LastStep && untold <= 0
}

// followProbe waits for the steps of a probe and says what they show.
func (s *session) followProbe(ctx context.Context, c Client, begun probed) error {
	probe := begun.Probe
	said := rollout.Step(-1)
	untold := probeUntold
	err := s.poll(ctx, pollEvery, s.outage(patience), func(ctx context.Context) (bool, error) {
		v, _, err := c.run(ctx, begun.Run)
		if err != nil || v.NextStep > probe.LastStep {
			return err == nil, err
		}
		if v.LoadProbe != nil {
			untold = 0
		}
		if probeIsGone(v.RunStatus, probe, untold) {
			s.Say("the probe ended before its last step, %d, was claimed: the run is %s at step %d", probe.LastStep, v.State,
				v.NextStep)
			return true, nil
		}
		if v.NextStep != said && v.NextStep > probe.FirstStep-2 {
			said = v.NextStep
			s.Say("at step %d; the steps that count are %d to %d", v.NextStep, probe.FirstStep, probe.LastStep)
		}
		untold--
		return false, nil
	})
	if err != nil {
		return err
	}
	records, err := c.steps(ctx, begun.Run, max(0, probe.FirstStep-2*(probe.LastStep-probe.FirstStep+2)))
	if err != nil {
		return err
	}
	answer := loadprobe.Judge(probe, records)
	begun.Answer = &answer
	return s.showValue(begun, func() error {
		if err := s.write(probeTable(answer)); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.Stdout, "\n%s\n\nNext     millrace diagnose %s\n",
			strings.Join(wrapped(probeText(answer), textWidth, true), "\n"), begun.Run)
		return err
	})
}

// probeTable sets the loads side by side.
func probeTable(a loadprobe.Answer) *table.Table {
	t := table.New(table.Left(""), table.Right("STEPS"), table.Right("ENGINES"), table.Right("IN FLIGHT"),
		table.Right("IN tok/s"), table.Right("OUT tok/s"), table.Right("STEP s"))
	for _, row := range []struct {
		name string
		load loadprobe.Load
	}{{"before", a.Before}, {"probe", a.During}} {
		l := row.load
		t.Row(row.name, fmt.Sprint(l.Steps), units.Number(l.Engines), units.Number(l.InFlight),
			fmt.Sprintf("%.0f", l.InputTPS), fmt.Sprintf("%.0f", l.OutputTPS), fmt.Sprintf("%.1f", l.StepSec))
	}
	return t
}

// probeText says in words what a probe has shown. Loads and rates are means per engine.
func probeText(a loadprobe.Answer) string {
	load := units.Percent(1 - a.During.InFlight/max(a.Before.InFlight, 1e-9))
	tokens := func(l loadprobe.Load) float64 { return l.InputTPS + l.OutputTPS }
	lost := units.Percent(max(0, 1-tokens(a.During)/max(tokens(a.Before), 1e-9)))
	switch a.Finding {
	case loadprobe.Saturated:
		return fmt.Sprintf("The engines are saturated: with %s fewer requests in flight an engine generates %s fewer tokens "+
			"per second. More engines make steps shorter; more depth or concurrency does not.", load, lost)
	case loadprobe.HasRoom:
		return fmt.Sprintf("The engines have room: with %s fewer requests in flight an engine generates %s fewer tokens per "+
			"second. More depth or concurrency makes steps shorter; more engines do not.", load, lost)
	case loadprobe.Between:
		return fmt.Sprintf("The engines are on their way to saturation: with %s fewer requests in flight an engine "+
			"generates %s fewer tokens per second. More engines and more depth both make steps somewhat shorter.",
			load, lost)
	}
	if a.During.Steps == 0 {
		return "Nothing is decided: no step was played under the limit."
	}
	return fmt.Sprintf("Nothing is decided: there were only %s fewer requests in flight per engine than before. Other "+
		"runs may have taken the room, or the run was waiting for something else; try again with --steps 4 or a lower "+
		"--max-in-flight.", load)
}
