package fakekubelet

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
)

// Nothing runs nothing: a container that is only an entry. Told to end, it takes as long as its grace lets it, but no
// longer than EndsAfter.
type Nothing struct{ EndsAfter time.Duration }

// Start begins one.
func (n Nothing) Start(*core.Pod, netip.Addr) (Container, error) {
	return &entry{endsAfter: n.EndsAfter, ended: make(chan struct{})}, nil
}

type entry struct {
	endsAfter time.Duration
	once      sync.Once
	ended     chan struct{}
}

func (e *entry) Ended() <-chan struct{} { return e.ended }
func (e *entry) Exit() (int, string)    { return 137, "" }

func (e *entry) Stop(grace time.Duration) {
	end := func() { e.once.Do(func() { close(e.ended) }) }
	if wait := min(grace, e.endsAfter); wait > 0 {
		time.AfterFunc(wait, end)
		return
	}
	end()
}

// Processes runs the command of a pod's first container as a process on this machine. Its environment is this process's
// with the container's; $(NAME) in the command is filled in as Kubernetes does it, and a variable may have the pod's
// address, from status.podIP.
type Processes struct {
	Log *os.File // gets what all of them print
}

// Start begins one.
func (p Processes) Start(pod *core.Pod, ip netip.Addr) (Container, error) {
	c := pod.Spec.Containers[0]
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = expand(v.Value, env)
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && v.ValueFrom.FieldRef.FieldPath == "status.podIP" {
			env[v.Name] = ip.String()
		}
	}
	var words []string
	for _, word := range append(append([]string{}, c.Command...), c.Args...) {
		words = append(words, expand(word, env))
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	run := &process{cmd: cmd, preStop: sleepBefore(c), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(run.ended)
	}()
	return run, nil
}

func expand(text string, env map[string]string) string {
	for name, value := range env {
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}
	return text
}

// sleepBefore is how long a preStop hook has a container go on before it is told to end.
func sleepBefore(c core.Container) time.Duration {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
		return 0
	}
	return time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
}

type process struct {
	cmd     *exec.Cmd
	preStop time.Duration
	ended   chan struct{}
}

func (p *process) Ended() <-chan struct{} { return p.ended }

func (p *process) Exit() (int, string) {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal()), ""
	}
	return p.cmd.ProcessState.ExitCode(), ""
}

// Stop waits for the preStop hook, tells the process to end, and kills it when the grace is over.
func (p *process) Stop(grace time.Duration) {
	if grace <= 0 {
		_ = p.cmd.Process.Kill()
		return
	}
	go func() {
		over, hook := time.After(grace), time.After(p.preStop)
		for {
			select {
			case <-hook:
				_ = p.cmd.Process.Signal(syscall.SIGTERM)
			case <-over:
				_ = p.cmd.Process.Kill()
				return
			case <-p.ended:
				return
			}
		}
	}()
}
