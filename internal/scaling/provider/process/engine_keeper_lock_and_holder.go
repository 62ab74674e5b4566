package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// whole is a process's lock on a whole file; the kernel tells others the holder's pid.
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

// holder is the pid that holds the keeper's lock; 0: none does. Callers must hold the host's lock, because the query
// releases a lock of their own on the file.
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
