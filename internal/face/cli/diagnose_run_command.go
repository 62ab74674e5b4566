package cli

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
)

// diagnoseFlags is what the command line asks for.
type diagnoseFlags struct {
	file              string
	step, first, last int64 // -1: not asked
	watch, code       bool
	verbose           bool
	price             float64 // $ per engine and hour; 0: not told
	probe             probeFlags
}

func newDiagnoseCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	var f diagnoseFlags
	cmd := &cobra.Command{
		Use:  "diagnose RUN | diagnose -f RECORD",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			if f.file != "" {
				return s.diagnoseFile(f)
			}
			c, run, err := s.clientOf(args[0])
			if err != nil {
				return err
			}
			if f.probe.begin || f.probe.end {
				return s.probe(cmd.Context(), c, run, f.probe)
			}
			if f.watch {
				return s.watchVerdict(cmd.Context(), c, run, f.code)
			}
			return s.diagnoseRun(cmd.Context(), c, run, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "a record that run record wrote, gzipped or not; - is standard input")
	flags.Int64Var(&f.step, "step", -1, "show this step, second by second")
	flags.Int64Var(&f.first, "from", -1, "look at the steps from this one on")
	flags.Int64Var(&f.last, "to", -1, "look at the steps up to this one")
	flags.BoolVar(&f.watch, "watch", false, "print a line whenever the verdict changes, until the run is over")
	flags.BoolVar(&f.verbose, "verbose", false, "write all of the report: levels, losses, what-ifs, causes")
	flags.Float64Var(&f.price, "price", 0, "$ per engine and hour: says what steps cost with each change")
	flags.BoolVar(&f.code, "exit-code", false, "exit with 6 when something slows the run down, with --watch: at its end")
	f.probe.add(cmd)
	s.flags(cmd)
	for _, other := range []string{"file", "step", "from", "to", "watch", "price", "exit-code"} {
		cmd.MarkFlagsMutuallyExclusive("probe", other)
	}
	return withLines(cmd)
}

// check refuses what goes together with nothing.
func (f diagnoseFlags) check(args []string) error {
	switch {
	case f.file == "" && len(args) != 1:
		return Usage("name the run, or a record with -f")
	case f.file != "" && len(args) > 0:
		return Usage("name the run or a record with -f, not both")
	case f.watch && (f.file != "" || f.step >= 0 || f.first >= 0 || f.last >= 0):
		return Usage("--watch looks at a run as it goes on: leave -f, --step, --from and --to out")
	case f.step >= 0 && (f.first >= 0 || f.last >= 0):
		return Usage("--step shows one step: leave --from and --to out")
	case f.step >= 0 && (f.code || f.price > 0):
		return Usage("--step shows one step, without a verdict or a price: leave --exit-code and --price out")
	case f.watch && f.price > 0:
		return Usage("--watch tells verdicts, without a price: leave --price out")
	case f.step < -1 || f.first < -1 || f.last < -1:
		return Usage("steps are counted from 0")
	case !(f.price >= 0) || math.IsInf(f.price, 1):
		return Usage("--price: want $ per engine and hour, 0 or more")
	case f.first >= 0 && f.last >= 0 && f.first > f.last:
		return Usage("no step lies from %d to %d", f.first, f.last)
	}
	return f.probe.check()
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
		return s.showText(a.Body, func(w io.Writer) error { return reporttext.WriteStep(w, step) })
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
	write := reporttext.Write
	if f.verbose {
		write = reporttext.WriteVerbose
	}
	if err := s.showText(body, func(w io.Writer) error { return write(w, report) }); err != nil {
		return err
	}
	if f.code && report.Urgent() {
		return errProblem
	}
	return nil
}

// Diagnose writes the diagnosis of a run.
func (c Client) Diagnose(ctx context.Context, run rollout.RunName, w io.Writer) error {
	report, _, err := c.diagnosis(ctx, run)
	if err != nil {
		return err
	}
	return reporttext.Write(w, report)
}
