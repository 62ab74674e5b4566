package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

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
