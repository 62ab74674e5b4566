//go:build !unix

package spool

import (
	"errors"
	"os"
)

// tryLock takes a lock; nil: another process has it. Where a system has no locks that end with a process, a file that
// is open cannot be removed.
func tryLock(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, nil
	}
	return f, err
}
