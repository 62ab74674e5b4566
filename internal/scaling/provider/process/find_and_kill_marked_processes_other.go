//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// process is which process the engine is. Where environments cannot be read, a number is believed only together with
// the time when its process began.
type process struct {
	PID   int    `json:"pid,omitempty"`
	Began string `json:"began,omitempty"`
}

func describeProcess(pid int) process { return process{PID: pid, Began: began(pid)} }

func began(pid int) string {
	text, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// killMarked kills the engine's process group, if its first process is still the one that was started.
func killMarked(_ string, engine process) (found int) {
	if engine.PID <= 1 || engine.Began == "" || began(engine.PID) != engine.Began {
		return 0
	}
	if syscall.Kill(-engine.PID, syscall.SIGKILL) != nil {
		return 0
	}
	return 1
}

// killIf signals a process if ok holds.
func killIf(pid int, ok func() bool, sig os.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if !ok() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}

// isMarked cannot be known here; the lock says whose the process is.
func isMarked(int, string) bool { return true }
