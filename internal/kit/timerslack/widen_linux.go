package timerslack

import (
	"math"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Slack is how much later a process's sleeps, and timers, may end. It is short beside whatever Millrace waits for.
const Slack = 500 * time.Microsecond

// Widen starts the process anew, under its own pid, with the slack, which its threads and the processes that it starts
// inherit; in one that has it, and where it is not to be had, it does nothing. A thread gives it to itself alone, and
// the monitor's is older than main: so main calls it, before it does anything else.
func Widen() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack() >= Slack {
		return
	}
	file, err := os.Executable()
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(Slack), 0, 0, 0) != nil || slack() < Slack {
		return
	}
	_ = syscall.Exec(file, os.Args, os.Environ())
}

// slack is the calling thread's, and the longest there is where Linux does not tell.
func slack() time.Duration {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
