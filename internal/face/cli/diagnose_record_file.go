package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/recordinput"
	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
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
	report.ForRecord(ShellWord(f.file))
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
	step.ForRecord(ShellWord(f.file))
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

// ShellWord is a word, such as a file, as a shell takes it.
func ShellWord(name string) string {
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
