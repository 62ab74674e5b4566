//go:build unix && !linux

package supervise

import "syscall"

// attributes gives the child a process group of its own, so that Ctrl-C in the terminal reaches the parent
// alone. Only Linux can kill it when the parent dies.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
