package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/millrace/millrace/internal/process/temporalcli"
	"github.com/millrace/millrace/trials/stack"
)

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
