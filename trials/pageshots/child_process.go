package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// child is a process that this one has started.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// stopPatience is how long a child may take to end.
const stopPatience = 30 * time.Second

func spawn(path string, args ...string) (child, error) {
	c := child{exec.Command(path, args...), make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = os.Stderr, os.Stderr
	if err := c.cmd.Start(); err != nil {
		return c, err
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // it has said why it ended
	}()
	return c, nil
}

// end asks the child to end, and ends it if it does not. A second call does nothing.
func (c child) end() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(stopPatience, func() { _ = c.cmd.Process.Kill() })
	<-c.ended
	late.Stop()
}
