package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/millrace/millrace/trials/stack"
)

// measured is what a benchmark found: as JSON it is itself.
type measured interface {
	WriteText(w io.Writer) error
}

// writeFound writes what a benchmark found as -o says.
func (e environment) writeFound(format string, found measured) error {
	if format == "json" {
		out := json.NewEncoder(e.stdout)
		out.SetIndent("", "  ")
		return out.Encode(found)
	}
	return found.WriteText(e.stdout)
}

func checkFormat(format string) error {
	if format != "table" && format != "json" {
		return usage("-o %s: use table or json", format)
	}
	return nil
}

// partlyMeasured is what may have something to tell though the measurement failed.
type partlyMeasured interface{ Any() bool }

// bench has the whole service measured, with what a trial finds and makes for it.
func (t *serviceTrial) bench(
	env environment, format string, validate func() error,
	measure func(programs stack.Programs, dir string) (measured, error),
) error {
	if err := checkFormat(format); err != nil {
		return err
	}
	if err := validate(); err != nil {
		return usage("%v", err)
	}
	return t.in(func(programs stack.Programs, dir string) error {
		found, err := measure(programs, dir)
		if part, ok := found.(partlyMeasured); err != nil && ok && part.Any() { // minutes of it are no less true
			return errors.Join(err, env.writeFound(format, found))
		}
		if err != nil {
			return err
		}
		return env.writeFound(format, found)
	})
}
