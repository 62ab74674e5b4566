package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// process is which process the engine is, for people; what is killed is found by its mark.
type process struct {
	PID int `json:"pid,omitempty"`
}

func describeProcess(pid int) process { return process{PID: pid} }

// killMarked kills every process but this one that has the order's mark in its environment, whosever child it is, and
// is how many it found. It looks until it finds none twice: they may be multiplying, and a process that becomes another
// program shows no environment for a moment.
func killMarked(nonce string, _ process) (found int) {
	if nonce == "" {
		return 0
	}
	for nothing, looks := 0, 0; nothing < 2 && looks < 20; looks++ {
		before := found
		for _, pid := range marked(nonce) {
			if killIf(pid, func() bool { return isMarked(pid, nonce) }, syscall.SIGKILL) == nil {
				found++
			}
		}
		if nothing++; found > before {
			nothing = 0
		}
		time.Sleep(2 * time.Millisecond)
	}
	return found
}

// killIf signals a process if ok still holds once the process has been taken hold of: its number cannot become
// another's in between.
func killIf(pid int, ok func() bool, sig os.Signal) error {
	p, err := os.FindProcess(pid) // by a file descriptor of the process
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	if !ok() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}

// marked are the processes with an order's mark, without this one.
func marked(nonce string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && isMarked(pid, nonce) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isMarked is false of a process that has ended and only waits to be noticed.
func isMarked(pid int, nonce string) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	return bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"="+nonce+"\x00"))
}
