// Package filelock takes locks between the processes of a host, which the kernel releases when their holder dies. Start
// reading at Lock.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
)

// poll is how often a lock that others hold is asked for again.
const poll = 10 * time.Millisecond

// Lock takes a lock on a file, which it creates, that excludes other goroutines and other processes. It waits for the
// lock as long as ctx allows.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := ctx.Err()
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || retry.Pause(ctx, poll) != nil {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, errors.Join(ctx.Err(), err))
		}
	}
}

// Share takes a lock on a file, which it creates, that several processes may hold at once, and waits a moment while one
// has it for itself alone.
func Share(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH)
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks
		}
		if !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// IsHeld reports whether a process holds a lock on a file, exclusive or shared. A missing file is not held.
func IsHeld(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // which unlocks
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return false, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return true, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("ask who holds %s: %w", path, err)
		}
	}
}

// AwaitRelease returns when no process holds a lock on a file any more, or with an error if it cannot be read.
func AwaitRelease(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
