package supervise

import "syscall"

// ChildAttributes gives the child a process group of its own, so that Ctrl-C in the terminal reaches the parent
// alone, and has the kernel kill it when the parent dies.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
