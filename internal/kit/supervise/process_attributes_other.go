//go:build unix && !linux

package supervise

import "syscall"

// ChildAttributes gives the child a process group of its own, so that Ctrl-C in the terminal reaches the parent
// alone. Only Linux can kill it when the parent dies.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
