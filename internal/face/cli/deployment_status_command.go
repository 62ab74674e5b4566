package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/kit/version"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

func newStatusCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	var exitCode bool
	cmd := s.on("status", func(ctx context.Context, c Client) error {
		found, a, err := apiclient.Get[api.DeploymentStatus](ctx, c.Client, "/v1/status")
		if err != nil {
			return err
		}
		if err := s.show(a.Body, func() error { return s.showDeployment(&found) }); err != nil {
			return err
		}
		if exitCode && slices.ContainsFunc(found.Problems, func(t api.Trouble) bool { return t.Urgent() }) {
			return WithCode(errors.New("something is wrong with the service"), ExitProblem)
		}
		return nil
	})
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 6 when something is slow or stuck")
	s.flags(cmd)
	return cmd
}

func (s *session) showDeployment(d *api.DeploymentStatus) error {
	for _, p := range d.Problems {
		what := p.What
		if p.Run != "" {
			what = fmt.Sprintf("run %s: %s", p.Run, what)
		}
		s.paragraph(fmt.Sprintf("%-7s", strings.ToUpper(string(p.Level))), what)
		if p.Advice != "" {
			s.paragraph("to do  ", p.Advice)
		}
	}
	if len(d.Problems) > 0 {
		fmt.Fprintln(s.Stdout)
	}
	t := table.New(table.Left(""), table.Left(""))
	if d.Name != "" {
		t.Row("name", d.Name)
	}
	t.Row("server", serverText(d.Version))
	t.Row("redis", answersText(d.Redis))
	if d.Temporal != nil {
		t.Row("temporal", answersText(*d.Temporal))
	}
	if w := d.Workers; w != nil {
		text := fmt.Sprintf("%d alive, %d of %d games", w.Alive, w.Games, w.Slots)
		if w.Absent > 0 {
			text += fmt.Sprintf("; %d not heard of any more", w.Absent)
		}
		t.Row("workers", text)
	}
	if e := d.Engines; e != nil {
		t.Row("engines", enginesText(e.ByState, e.InputTPS, e.OutputTPS, e.Scaled != nil))
		if v := e.Scaled; v != nil {
			t.Row("scaling", fmt.Sprintf("%d wanted, %d starting: %s", v.Wanted, v.Starting, termtext.First(v.Why, 200)))
		}
	}
	if len(d.Sinks) == 0 && d.Workers != nil {
		t.Row("axiom", "not configured: set AXIOM_TOKEN and AXIOM_DATASET; events are kept in Redis")
	}
	for _, sink := range d.Sinks {
		t.Row(sink.Sink, sinkText(sink, d.At))
		t.Row("", sinkCounts(sink))
	}
	if err := s.write(t); err != nil {
		return err
	}
	if len(d.Runs) == 0 {
		return nil
	}
	fmt.Fprintln(s.Stdout)
	runs := table.New(table.Left("RUN"), table.Left("STATE"), table.Right("STEP"), table.Right("OF"),
		table.Right("POLICY"), table.Right("READY"), table.Right("IN FLIGHT"), table.Right("QUEUED"), table.Left("LEVEL"))
	for _, r := range d.Runs {
		runs.Row(string(r.Run), string(r.State), fmt.Sprint(r.NextStep), fmt.Sprint(r.Steps),
			fmt.Sprintf("v%d", r.PolicyVersion), count(r.Ready), count(r.InFlight), count(r.Queued), levelText(r.Level, r.Brief))
	}
	return s.write(runs)
}

// levelText is how a run goes, and why: "slow: publish 12 %".
func levelText(level diagnosis.Severity, brief string) string {
	if brief == "" {
		return cmp.Or(string(level), "-")
	}
	return fmt.Sprintf("%s: %s", level, brief)
}

// serverText is the version of the server that answers.
func serverText(running string) string {
	if running == version.Unknown {
		return "answers; its build has no version"
	}
	return running
}

func answersText(a api.Answers) string {
	if a.Answers {
		return "answers"
	}
	return "does not answer"
}

func enginesText(byState map[enginestate.EngineState]int, inputTPS, outputTPS float64, scaled bool) string {
	if len(byState) == 0 && scaled {
		return "none"
	}
	if len(byState) == 0 {
		return "none; add one with: millrace engine add URL"
	}
	parts := make([]string, 0, len(byState))
	for _, state := range slices.Sorted(maps.Keys(byState)) {
		parts = append(parts, fmt.Sprintf("%d %s", byState[state], state))
	}
	return fmt.Sprintf("%s; in %.0f tok/s, out %.0f tok/s", strings.Join(parts, ", "), inputTPS, outputTPS)
}

// sinkText is how the delivery to a sink goes, on a line.
func sinkText(sink telemetry.SinkStatus, now time.Time) string {
	text := string(sink.State)
	if sink.State != telemetry.SinkOK {
		text += " since " + tablerow.Span(now.Sub(sink.Since))
	}
	if sink.Target != "" {
		text += ", dataset " + sink.Target
	}
	if sink.Backlog == 0 {
		text += ", nothing waits"
	} else {
		text += fmt.Sprintf(", %d events wait, the oldest for %s", sink.Backlog, units.Seconds(sink.LagSec))
	}
	if sink.NextTry.After(now) {
		text += ", next try in " + tablerow.Span(sink.NextTry.Sub(now))
	}
	return text
}

// sinkCounts says what became of every event: the numbers after the first add up to it.
func sinkCounts(sink telemetry.SinkStatus) string {
	text := fmt.Sprintf("%d events written: %d delivered, %d dead letters, %d lost, %d wait", sink.Written, sink.Delivered,
		sink.DeadLetters, sink.Lost(), sink.Backlog)
	if sink.Lost() > 0 {
		text += fmt.Sprintf("; of the lost %d were facts, %d samples, %d dead letters that were dropped", sink.LostFacts,
			sink.LostSamples, sink.LostLetters)
	}
	return text
}

// sinkProblemText is what is wrong with a sink, and what to do, for a page that is about something else.
func sinkProblemText(sink telemetry.SinkStatus, now time.Time) string {
	text := sinkText(sink, now)
	if sink.Reason != "" {
		text += "; " + sink.Reason
	}
	if sink.Advice != "" {
		text += "; to do: " + sink.Advice
	}
	if sink.DeadLetters > 0 {
		text += fmt.Sprintf("; %d refused events are kept: millrace axiom dead-letters", sink.DeadLetters)
	}
	return text
}
