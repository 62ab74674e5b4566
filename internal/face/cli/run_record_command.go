package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis/recordinput"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout"
)

func (s *session) recordCommand() *cobra.Command {
	var to string
	var newest int
	cmd := s.onRun("record RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if newest < 0 {
				return Usage("--steps %d: a number of steps, or 0 for all", newest)
			}
			record, err := c.Record(ctx, run, s.now())
			if err != nil {
				return err
			}
			if err := recordinput.SumUp(record, newest); err != nil {
				return err
			}
			if to == "" || to == "-" {
				return record.Write(s.Stdout, false)
			}
			if err := WriteRecord(record, to); err != nil {
				return err
			}
			for _, gap := range record.Gaps {
				s.Say("missing: %s", gap)
			}
			s.Say("%s has %d steps and %d events of run %s", to, len(record.Steps), len(record.Events), run)
			return nil
		})
	cmd.Flags().StringVarP(&to, "file", "f", "", "a file; gzipped if its name ends in .gz; default: standard output")
	cmd.Flags().IntVar(&newest, "steps", 2000,
		"keep so many of the newest steps one by one, and sum up older ones; 0: keep all")
	return cmd
}

// WriteRecord writes a record to a file, gzipped if its name ends in .gz.
func WriteRecord(record *runrecord.Record, to string) error {
	return writeFile(to, func(w io.Writer) error { return record.Write(w, strings.HasSuffix(to, ".gz")) })
}

// writeFile gives a file its name when all of it is written.
func writeFile(to string, write func(io.Writer) error) error {
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir():
		return Usage("%s is a folder; name a file", to)
	case err == nil && !info.Mode().IsRegular(): // a pipe or /dev/null: a file in its place would take it away
		device, err := os.OpenFile(to, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(device), device.Close())
	}
	partial, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".partial-*")
	if err != nil {
		return err
	}
	defer os.Remove(partial.Name())
	if err = errors.Join(write(partial), partial.Chmod(0o644), partial.Close()); err != nil {
		return err
	}
	return os.Rename(partial.Name(), to)
}
