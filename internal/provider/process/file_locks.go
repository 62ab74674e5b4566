package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a lock that others hold is asked for again.
const lockPoll = 10 * time.Millisecond

// lockFile takes a lock on a file that excludes other goroutines and other processes, and waits for it as long as ctx
// allows. The kernel releases it when its holder dies.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("wait for the lock on %s: %w", path, err)
		}
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lockPoll):
		}
	}
}

// whole is a lock on all of a file that belongs to a process, of which others can learn which process it is.
func whole(kind int16) *syscall.Flock_t {
	return &syscall.Flock_t{Type: kind, Whence: io.SeekStart}
}

// hold takes the keeper's lock for this process, until it ends or closes any descriptor of the file. taken is false if
// another process has it.
func hold(f *os.File) (taken bool, err error) {
	err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, whole(syscall.F_WRLCK))
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// unseen is a holder that this process cannot see: it is in another container or on another host.
const unseen = -1

// holder is the process that holds the keeper's lock; 0: none does. Whoever asks holds the host's lock, for a process
// that asks gives up a lock of its own on the file.
func holder(path string) (pid int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close() // this process never holds the lock
	lock := whole(syscall.F_WRLCK)
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, lock); err != nil {
		return 0, fmt.Errorf("ask who holds %s: %w", path, err)
	}
	if lock.Type == syscall.F_UNLCK {
		return 0, nil
	}
	if lock.Pid <= 0 {
		return unseen, nil
	}
	return int(lock.Pid), nil
}

// awaitRelease returns when nobody holds a lock (flock) on a file, or when the file is gone.
func awaitRelease(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// HoldLifeline creates a file and holds the lock on it on which engines with this lifeline live. It ends with the
// process, however that ends.
func HoldLifeline(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}
