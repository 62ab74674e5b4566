package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/stack"
)

const temporalFlag = "temporal CLI (default $MILLRACE_TEMPORAL, then the PATH, then .bin/temporal)"

// serviceTrial is what commands have in common that start the whole service to try it: their flags, what they run and
// where they write.
type serviceTrial struct {
	temporal string
	keep     string
	noRedis  bool // it can do without redis-server
}

func (t *serviceTrial) add(f *pflag.FlagSet) {
	f.StringVar(&t.temporal, "temporal-bin", "", temporalFlag)
	f.StringVar(&t.keep, "keep", "", "write logs, databases and journals here and leave them")
}

// programs finds what a trial runs.
func (t *serviceTrial) programs() (p stack.Programs, err error) {
	if p.Millrace, err = os.Executable(); err != nil {
		return p, fmt.Errorf("find this program: %w", err)
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
