package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/process/temporalcli"
	"github.com/millrace/millrace/trials/stack"
)

// serviceTrial is what commands have in common that start the whole service to try it: their flags, what they run and
// where they write.
type serviceTrial struct {
	millrace string
	temporal string
	keep     string
	noRedis  bool // it can do without redis-server
}

func (t *serviceTrial) add(f *pflag.FlagSet) {
	f.StringVar(&t.millrace, "millrace", "", "try this millrace, such as an earlier version (default: the one "+
		"beside this program, then the PATH)")
	f.StringVar(&t.temporal, "temporal-bin", "", "temporal CLI (default $MILLRACE_TEMPORAL, then the PATH, then "+
		".bin/temporal)")
	f.StringVar(&t.keep, "keep", "", "write logs, databases and journals here and leave them")
}

// programs finds what a trial runs.
func (t *serviceTrial) programs() (p stack.Programs, err error) {
	if p.Lab, err = os.Executable(); err != nil {
		return p, fmt.Errorf("find this program: %w", err)
	}
	if p.Millrace, err = millraceBinary(t.millrace, p.Lab); err != nil {
		return p, err
	}
	if p.Temporal, err = temporalBinary(t.temporal); err != nil {
		return p, err
	}
	p.Redis, err = exec.LookPath("redis-server")
	switch {
	case err == nil:
	case t.noRedis:
		p.Redis = ""
	default:
		return p, usage("this needs a real Redis: put redis-server on the PATH (Debian: apt-get install redis-server)")
	}
	return p, nil
}

// millraceBinary finds the product: where the flag says, beside the lab, or on the PATH.
func millraceBinary(flag, lab string) (string, error) {
	beside := filepath.Join(filepath.Dir(lab), "millrace")
	if path, err := exec.LookPath(cmp.Or(flag, beside)); err == nil {
		return filepath.Abs(path)
	}
	path, err := exec.LookPath("millrace")
	if flag != "" || err != nil {
		return "", usage("there is no program %s: make build builds it", cmp.Or(flag, beside))
	}
	return path, nil
}

// temporalBinary finds the temporal CLI: where the flag says, or where it usually is.
func temporalBinary(flag string) (string, error) {
	if flag == "" {
		return temporalcli.Find(os.Getenv, ".")
	}
	path, err := exec.LookPath(flag)
	if err != nil {
		return "", usage("--temporal-bin %s: no such program", flag)
	}
	return filepath.Abs(path)
}

// dir is where a trial writes: the folder that is to be kept, or one of its own, which remove removes.
func (t *serviceTrial) dir() (dir string, remove func(), err error) {
	if t.keep != "" {
		dir, err = filepath.Abs(t.keep)
		return dir, func() {}, err
	}
	dir, err = os.MkdirTemp("", "millrace-trial-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // a temporary folder
}

// in finds the programs, makes the folder and calls try with both.
func (t *serviceTrial) in(try func(programs stack.Programs, dir string) error) error {
	programs, err := t.programs()
	if err != nil {
		return err
	}
	dir, remove, err := t.dir()
	if err != nil {
		return err
	}
	defer remove()
	return try(programs, dir)
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
