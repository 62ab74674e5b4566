package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/recordinput"
	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
)

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
	in.First, in.Last = stepOf(f.first), stepOf(f.last)
	if asked, none := in.NoneAsked(); none {
		return noStepIn(f.file, record, "none of the steps asked about, "+asked)
	}
	if f.step >= 0 {
		return s.showRecordedStep(f, record, in)
	}
	report := diagnosis.Diagnose(in)
	report.ForRecord(fileArgument(f.file))
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return s.showReport(report, body, f)
}

func (s *session) showRecordedStep(f diagnoseFlags, record *runrecord.Record, in diagnosis.Input) error {
	step, ok := diagnosis.TimelineOf(in, rollout.Step(f.step))
	if !ok {
		return noStepIn(f.file, record, fmt.Sprintf("no completed step %d", f.step))
	}
	step.ForRecord(fileArgument(f.file))
	body, err := json.Marshal(step)
	if err != nil {
		return err
	}
	return s.showText(body, func(w io.Writer) error { return reporttext.WriteStep(w, step) })
}

// stepOf is the step that a flag names; nil where it names none.
func stepOf(n int64) *rollout.Step {
	if n < 0 {
		return nil
	}
	step := rollout.Step(n)
	return &step
}

// noStepIn says that a record lacks what was asked about, and what it has.
func noStepIn(file string, record *runrecord.Record, lacks string) error {
	has := "it has no completed step"
	if done := record.Done(); len(done) > 0 {
		has = fmt.Sprintf("it has steps %d to %d", done[0].Step, done[len(done)-1].Step)
	}
	if len(record.Older) > 0 {
		has += ", and those before only summed up; write one that has them with: millrace run record RUN --steps 0"
	}
	return rollout.Refuse(rollout.NoSuchStep, "%s has %s: %s", file, lacks, has)
}

// fileArgument is a file as a shell takes it.
func fileArgument(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./+,:@%=", r)
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

func (s *session) readRecord(name string) (*runrecord.Record, error) {
	if name == "-" {
		return runrecord.Read("standard input", s.Stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, Usage("%v", err)
	}
	defer file.Close()
	return runrecord.Read(name, file)
}

// verdictEvery is how often a watched run is diagnosed.
const verdictEvery = 5 * time.Second

// verdictsSaid is what a watch has said of a run.
type verdictsSaid struct {
	last    string // verdict and first cause
	problem bool   // the last one is
	over    bool   // and the run was
}

// watchVerdict prints what a run's diagnosis says first and whenever it says something else, until the run is over.
// With exitCode it then ends as a diagnosis of that moment would.
func (s *session) watchVerdict(ctx context.Context, c Client, run rollout.RunName, exitCode bool) error {
	var said verdictsSaid
	return s.poll(ctx, verdictEvery, s.outage(patience), func(ctx context.Context) (bool, error) {
		err := s.sayVerdict(ctx, c, run, &said)
		if err == nil && said.over && exitCode && said.problem {
			return true, errProblem
		}
		return err == nil && said.over, err
	})
}

// sayVerdict writes the verdict if it is another than was said.
func (s *session) sayVerdict(ctx context.Context, c Client, run rollout.RunName, said *verdictsSaid) error {
	view, _, err := c.run(ctx, run)
	if err != nil {
		return err
	}
	report, a, err := c.diagnosis(ctx, run)
	if err != nil {
		return err
	}
	verdict := string(report.Verdict)
	if len(report.Findings) > 0 {
		verdict += " " + string(report.Findings[0].Cause)
	}
	said.problem, said.over = report.Problem(), view.State.Over()
	if verdict == said.last {
		return nil
	}
	said.last = verdict
	if s.format == "table" {
		_, err := fmt.Fprintf(s.Stdout, "%s  step %d  %s\n", s.now().Format(time.TimeOnly), report.To,
			termtext.Block(reporttext.Headline(report)))
		return err
	}
	return s.writeLine(a.Body)
}
