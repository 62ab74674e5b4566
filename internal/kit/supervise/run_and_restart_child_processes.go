// Package supervise keeps child processes: it starts them, restarts those that die, and stops all of them
// in reverse order, so that nothing is left behind however the parent ends. It knows nothing of what they do.
// Start reading at Group.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Process says how to run one child.
type Process struct {
	Name string
	Path string
	Args []string
	Env  []string // added to the parent's
	// Once means that a clean exit (status 0) is the end of it; otherwise every exit is followed by a restart.
	Once bool
}

// Event reports what happened to a child.
type Event struct {
	Name string
	Text string
}

// Group is a set of children of one parent. Its methods are for one goroutine.
type Group struct {
	logs     string      // folder
	notify   func(Event) // called from several goroutines
	children []*child
}

// NewGroup makes an empty group, whose children write to files in the folder logs. notify hears of exits and restarts.
func NewGroup(logs string, notify func(Event)) *Group { return &Group{logs: logs, notify: notify} }

// LogFile is the file that the named child writes to.
func (g *Group) LogFile(name string) string { return filepath.Join(g.logs, name+".log") }

// OpenLog opens a child's file for appending.
func (g *Group) OpenLog(name string) (*os.File, error) {
	if err := os.MkdirAll(g.logs, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for logs: %w", err)
	}
	log, err := os.OpenFile(g.LogFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", name, err)
	}
	return log, nil
}

// Restart delays: short enough for a demonstration, growing so that a child that cannot start does not spin.
const (
	firstDelay = 300 * time.Millisecond
	maxDelay   = 10 * time.Second
	// healthyFor is how long a child must have lived for its next restart to be quick again.
	healthyFor = 10 * time.Second
	// graceFor is how long a child may take to end after SIGTERM.
	graceFor = 10 * time.Second
)

// child is one supervised process; its goroutine owns the exec.Cmd.
type child struct {
	Process
	log  *os.File
	stop chan struct{} // closed: end
	kill chan struct{} // closed: end now
	done chan struct{} // closed when the last process is gone
	exit error         // of the last process; read after done

	mu   sync.Mutex
	pid  int
	ends int
}

// Start starts a child and keeps it until Stop. It fails only when the very first start does.
func (g *Group) Start(p Process) error {
	log, err := g.OpenLog(p.Name)
	if err != nil {
		return err
	}
	c := &child{Process: p, log: log, stop: make(chan struct{}), kill: make(chan struct{}), done: make(chan struct{})}
	started := make(chan error, 1)
	go c.keep(started, g.notify)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	g.children = append(g.children, c)
	return nil
}

// End stops the named child for good, as Stop does, and forgets it.
func (g *Group) End(name string) {
	g.children = slices.DeleteFunc(g.children, func(c *child) bool {
		if c.Name != name {
			return false
		}
		close(c.stop)
		<-c.done
		return true
	})
}

// Wait blocks until the named child has ended for good, or ctx is done.
func (g *Group) Wait(ctx context.Context, name string) error {
	for _, c := range g.children {
		if c.Name != name {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return c.exit
		}
	}
	return fmt.Errorf("no child %s", name)
}

// PID is the named child's current process id; 0 when there is none.
func (g *Group) PID(name string) int {
	pid, _ := g.look(name)
	return pid
}

// Ends counts how often the named child has ended by itself, so that a caller can stop waiting for it.
func (g *Group) Ends(name string) int {
	_, ends := g.look(name)
	return ends
}

func (g *Group) look(name string) (pid, ends int) {
	for _, c := range g.children {
		if c.Name == name {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.pid, c.ends
		}
	}
	return 0, 0
}

// Stop ends all children, the last started first, and waits for them. When now is closed it stops being patient.
func (g *Group) Stop(now <-chan struct{}) {
	for i := len(g.children) - 1; i >= 0; i-- {
		c := g.children[i]
		close(c.stop)
		select {
		case <-c.done:
		case <-now:
			close(c.kill)
			<-c.done
		}
	}
	g.children = nil
}

// keep runs the child again and again. The kernel kills the child when the thread that started it ends
// (Pdeathsig), so that a parent killed by SIGKILL leaves nothing behind; hence the locked thread.
func (c *child) keep(started chan<- error, notify func(Event)) {
	defer close(c.done)
	defer c.log.Close() // nothing more is written
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	delay := firstDelay
	for first := true; ; first = false {
		began := time.Now()
		cmd, err := c.launch()
		if first {
			started <- err
			if err != nil {
				return
			}
		}
		if err == nil && !first {
			notify(Event{c.Name, fmt.Sprintf("runs again, process %d", cmd.Process.Pid)})
		}
		if err == nil {
			var ended bool
			ended, err = Await(cmd, c.stop, c.kill)
			c.setPID(0)
			if ended {
				return
			}
		}
		c.exit = err
		c.ended()
		if err == nil && c.Once {
			return
		}
		if time.Since(began) > healthyFor {
			delay = firstDelay
		}
		notify(Event{c.Name, fmt.Sprintf("ended (%s); starting it again in %s", DescribeExit(err), delay)})
		select {
		case <-c.stop:
			return
		case <-time.After(delay):
		}
		delay = min(2*delay, maxDelay)
	}
}

func (c *child) launch() (*exec.Cmd, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	cmd.SysProcAttr = ChildAttributes()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.setPID(cmd.Process.Pid)
	return cmd, nil
}

// Await waits until a process that has ChildAttributes ends by itself, or ends it once stop is closed: by SIGTERM, and
// after a grace, or when kill is closed, by SIGKILL. What it has started and left is killed. ended tells that it was
// told to end.
func Await(cmd *exec.Cmd, stop, kill <-chan struct{}) (ended bool, err error) {
	defer SignalGroup(cmd, syscall.SIGKILL)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case err := <-exited:
		return false, err
	case <-stop:
	}
	SignalGroup(cmd, syscall.SIGTERM)
	select {
	case err = <-exited:
		return true, err
	case <-kill:
	case <-time.After(graceFor):
	}
	SignalGroup(cmd, syscall.SIGKILL)
	return true, <-exited
}

func (c *child) setPID(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid = pid
}

func (c *child) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends++
}

// SignalGroup reaches the whole process group of a child that has ChildAttributes.
func SignalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	// The group may be gone already, which is what is wanted.
	_ = syscall.Kill(-cmd.Process.Pid, sig)
}

// DescribeExit says how a child ended.
func DescribeExit(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "status 0"
	case errors.As(err, &exit):
		return exit.String()
	default:
		return err.Error()
	}
}
