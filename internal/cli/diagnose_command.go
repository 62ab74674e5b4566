package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/aplquery"
	"github.com/millrace/millrace/internal/diagnosis/recordinput"
	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runrecord"
)

// diagnoseFlags is what the command line asks for.
type diagnoseFlags struct {
	file              string
	step, first, last int64 // -1: not asked
	watch, code       bool
	price             float64 // $ per engine and hour; 0: not told
}

// verdictEvery is how often a watched run is diagnosed.
const verdictEvery = 5 * time.Second

func newDiagnoseCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	var f diagnoseFlags
	cmd := &cobra.Command{
		Use:   "diagnose RUN | diagnose -f RECORD",
		Short: "Say why a run's steps take as long as they do, and what would help",
		Args:  cobra.MaximumNArgs(1), ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			if f.file != "" {
				return s.diagnoseFile(f)
			}
			run := rollout.RunName(args[0])
			if err := run.ValidateID(); err != nil {
				return usage("%v", err)
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			if f.watch {
				return s.watchVerdict(cmd.Context(), c, run)
			}
			return s.diagnoseRun(cmd.Context(), c, run, f)
		},
	}
	cmd.Long = `Say why a run's steps take as long as they do: since when, which phase grew, where the games were while the
trainer waited, what limits the run (compute, the engines' capacity or the games' latency), where every second of its
steps went, and what would and would not help.

Numbers are labelled: measured ones are read from the records, modelled ones come from a replay with one thing changed, or
from a simulation of the run where that meets the record well. With too little evidence it says what is missing instead of guessing.

With --step it shows one step second by second: where the trainer waited for which group, and what that group was doing.
With --watch it prints a line whenever the verdict changes. With -f it reads a record that run record wrote, and
needs no server.

` + ExitCodesHelp
	cmd.Example = `  millrace diagnose demo
  millrace diagnose demo --step 17
  millrace diagnose demo --from 100 --to 200
  millrace diagnose demo --watch
  millrace diagnose -f demo.json.gz -o json`
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "a record that run record wrote, gzipped or not; - is standard input")
	flags.Int64Var(&f.step, "step", -1, "show this step, second by second")
	flags.Int64Var(&f.first, "from", -1, "look at the steps from this one on")
	flags.Int64Var(&f.last, "to", -1, "look at the steps up to this one")
	flags.BoolVar(&f.watch, "watch", false, "print a line whenever the verdict changes, until the run is over")
	flags.Float64Var(&f.price, "price", 0, "$ per engine and hour: says what steps cost with each change")
	flags.BoolVar(&f.code, "exit-code", false, "exit with 6 when something slows the run down now")
	s.flags(cmd)
	return withLines(cmd)
}

// check refuses what goes together with nothing.
func (f diagnoseFlags) check(args []string) error {
	switch {
	case f.file == "" && len(args) != 1:
		return usage("name the run, or a record with -f")
	case f.file != "" && len(args) > 0:
		return usage("name the run or a record with -f, not both")
	case f.watch && (f.file != "" || f.step >= 0 || f.first >= 0 || f.last >= 0):
		return usage("--watch looks at a run as it goes on: leave -f, --step, --from and --to out")
	case f.step >= 0 && (f.first >= 0 || f.last >= 0):
		return usage("--step shows one step: leave --from and --to out")
	case f.step < -1 || f.first < -1 || f.last < -1:
		return usage("steps are counted from 0")
	case f.price < 0:
		return usage("--price: want $ per engine and hour, 0 or more")
	case f.first >= 0 && f.last >= 0 && f.first > f.last:
		return usage("no step lies from %d to %d", f.first, f.last)
	}
	return nil
}

// query is the flags as the API has them.
func (f diagnoseFlags) query() string {
	q := url.Values{}
	for name, n := range map[string]int64{"step": f.step, "from": f.first, "to": f.last} {
		if n >= 0 {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (s *session) diagnoseRun(ctx context.Context, c Client, run rollout.RunName, f diagnoseFlags) error {
	path := apiclient.RunPath(run) + "/diagnosis" + f.query()
	if f.step >= 0 {
		step, a, err := apiclient.Get[diagnosis.StepTimeline](ctx, c.Client, path)
		if err != nil {
			return err
		}
		return s.show(a.Body, func() error { return reporttext.WriteStep(s.Stdout, step) })
	}
	report, a, err := apiclient.Get[diagnosis.Report](ctx, c.Client, path)
	if err != nil {
		return err
	}
	return s.showReport(report, a.Body, f)
}

func (s *session) showReport(report diagnosis.Report, body []byte, f diagnoseFlags) (err error) {
	if f.price > 0 {
		report.Price(f.price)
		if body, err = json.Marshal(report); err != nil {
			return err
		}
	}
	if err := s.show(body, func() error { return reporttext.Write(s.Stdout, report) }); err != nil {
		return err
	}
	if f.code && report.Problem() {
		return errProblem
	}
	return nil
}

// diagnoseFile diagnoses a record where no server is at hand.
func (s *session) diagnoseFile(f diagnoseFlags) error {
	record, err := s.readRecord(f.file)
	if err != nil {
		return err
	}
	in, err := recordinput.Of(record)
	if err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	if f.step >= 0 {
		step, ok := diagnosis.TimelineOf(in, rollout.Step(f.step))
		if !ok {
			return rollout.Refuse(rollout.NoSuchStep, "%s has no record of a completed step %d", f.file, f.step)
		}
		body, err := json.Marshal(step)
		if err != nil {
			return err
		}
		return s.show(body, func() error { return reporttext.WriteStep(s.Stdout, step) })
	}
	if f.first >= 0 {
		first := rollout.Step(f.first)
		in.First = &first
	}
	if f.last >= 0 {
		last := rollout.Step(f.last)
		in.Last = &last
	}
	var span [2]time.Time
	if n := len(record.Steps); n > 0 {
		span = [2]time.Time{record.Steps[0].Service.FirstAskedAt, record.Steps[n-1].Service.CompletedAt}
	}
	report := aplquery.WithQueries(diagnosis.Diagnose(in), "", span)
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return s.showReport(report, body, f)
}

func (s *session) readRecord(name string) (*runrecord.Record, error) {
	if name == "-" {
		return runrecord.Read("standard input", s.Stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, usage("%v", err)
	}
	defer file.Close()
	return runrecord.Read(name, file)
}

// watchVerdict prints what a run's diagnosis says first and whenever it says something else, until the run is over.
func (s *session) watchVerdict(ctx context.Context, c Client, run rollout.RunName) error {
	ticker := time.NewTicker(verdictEvery)
	defer ticker.Stop()
	said := ""
	var lost time.Time
	for {
		over, err := s.sayVerdict(ctx, c, run, &said)
		switch {
		case err == nil && over:
			return nil
		case err == nil:
			lost = time.Time{}
		case ExitCode(err) != ExitUnavailable:
			return err
		case lost.IsZero():
			lost = s.now()
			s.say("the server does not answer; waiting for it")
		case s.now().Sub(lost) > patience:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// sayVerdict writes the verdict if it is another than was said.
func (s *session) sayVerdict(ctx context.Context, c Client, run rollout.RunName, said *string) (over bool, err error) {
	view, _, err := c.run(ctx, run)
	if err != nil {
		return false, err
	}
	report, a, err := c.diagnosis(ctx, run)
	if err != nil {
		return false, err
	}
	verdict := string(report.Verdict)
	if len(report.Findings) > 0 {
		verdict += " " + string(report.Findings[0].Cause)
	}
	if verdict != *said {
		*said = verdict
		if s.format != "table" {
			var line bytes.Buffer
			if err := json.Compact(&line, a.Body); err != nil {
				return false, err
			}
			fmt.Fprintln(s.Stdout, line.String())
		} else {
			fmt.Fprintf(s.Stdout, "%s  step %d  %s\n", s.now().Format(time.TimeOnly), report.To, reporttext.Headline(report))
		}
	}
	return view.State.Over(), nil
}

// Diagnose writes the diagnosis of a run.
func (c Client) Diagnose(ctx context.Context, run rollout.RunName, w io.Writer) error {
	report, _, err := c.diagnosis(ctx, run)
	if err != nil {
		return err
	}
	return reporttext.Write(w, report)
}
