//go:build linux

package podsandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod is one that runs, or is about to.
type pod struct {
	*Sandboxes
	manifest *core.Pod
	address  netip.Addr
	network  string // of its own, by name
	dir      string
	log      *os.File
	cancel   context.CancelFunc

	folders    map[string]string // of volumes that outlive the pod; not changed once a container runs
	tokenText  string            // for the goroutine that fills volumes
	tokenUntil time.Time

	ended   chan struct{}
	stopped chan struct{} // closed when it is told to end
	once    sync.Once

	mu     sync.Mutex
	status core.PodStatus
	killAt time.Time // when its grace is over
	exit   int
	last   string
}

// Ended is closed when nothing of it runs.
func (p *pod) Ended() <-chan struct{} { return p.ended }

// Exit is how its container ended.
func (p *pod) Exit() (int, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit, p.last
}

// Status is what a kubelet would say of it, but for its address.
func (p *pod) Status() core.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.status.DeepCopy()
}

// Stop has its preStop hook run, then the container told to end; it is killed when the grace is over.
func (p *pod) Stop(grace time.Duration) {
	p.mu.Lock()
	p.killAt = time.Now().Add(grace)
	p.mu.Unlock()
	p.once.Do(func() { close(p.stopped) })
	time.AfterFunc(grace, p.cancel) // ends what runs at once
}

// run is the pod's life: volumes and network, init containers in turn, then the container until it has ended for good.
func (p *pod) run(ctx context.Context) {
	defer p.cancel()
	defer p.log.Close()
	defer os.RemoveAll(p.dir)
	defer func() { _ = ip("netns", "del", p.network) }()
	if !p.prepare(ctx) {
		return
	}
	var background sync.WaitGroup
	defer background.Wait()
	running, stop := context.WithCancel(ctx)
	defer stop()
	background.Go(func() { p.renewVolumes(running) })

	for i := range p.manifest.Spec.InitContainers {
		if !p.untilDone(ctx, &p.manifest.Spec.InitContainers[i], true) {
			return
		}
	}
	p.untilDone(ctx, &p.manifest.Spec.Containers[0], false)
}

// prepare makes volumes and network, again and again until it can.
func (p *pod) prepare(ctx context.Context) bool {
	for {
		err := p.fillVolumes(ctx)
		if err == nil {
			err = p.connect()
		}
		if err == nil {
			return true
		}
		p.say(p.pending("ContainerCreating", err.Error()))
		if !p.wait(ctx, time.Second) {
			return false
		}
	}
}

// connect gives the pod its network: an end of a cable in it, the other end on the bridge.
func (p *pod) connect() error {
	p.writeHosts(nil)
	cable := "v" + strings.ReplaceAll(string(p.manifest.UID), "-", "")[:12]
	_ = ip("netns", "del", p.network)
	for _, words := range [][]string{
		{"netns", "add", p.network},
		{"link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", p.network},
		{"link", "set", cable, "master", p.cfg.Bridge, "up"},
		{"-n", p.network, "addr", "add", netip.PrefixFrom(p.address, p.cfg.Gateway.Bits()).String(), "dev", "eth0"},
		{"-n", p.network, "link", "set", "eth0", "up"},
		{"-n", p.network, "link", "set", "lo", "up"},
		{"-n", p.network, "route", "add", "default", "via", p.cfg.Gateway.Addr().String()},
	} {
		if err := ip(words...); err != nil {
			return err
		}
	}
	return nil
}

// writeHosts changes the file in its place: containers have it mounted.
func (p *pod) writeHosts(addresses map[string][]netip.Addr) {
	var text strings.Builder
	fmt.Fprintf(&text, "127.0.0.1 localhost\n::1 localhost\n%s %s\n", p.address, p.manifest.Name)
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		short, namespace, _ := strings.Cut(name, ".")
		names := []string{name, name + ".svc", name + ".svc.cluster.local"}
		if namespace == p.manifest.Namespace {
			names = append(names, short)
		}
		for _, a := range addresses[name] {
			fmt.Fprintf(&text, "%s %s\n", a, strings.Join(names, " "))
		}
	}
	path := filepath.Join(p.dir, "hosts")
	if was, err := os.ReadFile(path); err != nil || string(was) != text.String() {
		_ = os.WriteFile(path, []byte(text.String()), 0o644)
	}
}

func (p *pod) renewVolumes(ctx context.Context) {
	tick := time.NewTicker(volumesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = p.fillVolumes(ctx) // what there is stays
		}
	}
}

// untilDone runs a container until it has ended for good. It reports whether what comes after it may run.
func (p *pod) untilDone(ctx context.Context, c *core.Container, init bool) bool {
	for restarts := 0; ; restarts++ {
		began := meta.Now()
		code, err := p.runOnce(ctx, c, init, restarts, began)
		if p.isStopped() {
			return false
		}
		ended := core.ContainerState{Terminated: &core.ContainerStateTerminated{
			ExitCode: int32(code), Reason: "Completed", StartedAt: began, FinishedAt: meta.Now(),
		}}
		if code != 0 {
			ended.Terminated.Reason = "Error"
		}
		if err != nil {
			ended = core.ContainerState{Waiting: &core.ContainerStateWaiting{
				Reason: "CreateContainerError", Message: err.Error(),
			}}
		}
		policy := p.manifest.Spec.RestartPolicy
		switch {
		case init && err == nil && code == 0:
			return true
		case err == nil && (policy == core.RestartPolicyNever || policy == core.RestartPolicyOnFailure && code == 0):
			p.mu.Lock()
			p.exit = code
			p.mu.Unlock()
			p.say(p.statusOf(c, ended, init, false, restarts))
			return false
		}
		p.say(p.statusOf(c, ended, init, false, restarts))
		if !p.wait(ctx, min(time.Second<<min(restarts, 4), 10*time.Second)) {
			return false
		}
	}
}

// runOnce runs a container once, and returns its exit code, or why it could not be created.
func (p *pod) runOnce(ctx context.Context, c *core.Container, init bool, restarts int, began meta.Time) (int, error) {
	env, err := p.environment(ctx, c)
	if err != nil {
		return 0, err
	}
	cmd, err := p.command(c, env)
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	probing, stopProbing := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer stopProbing()
	running := core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: began}}
	p.say(p.statusOf(c, running, init, !init && c.ReadinessProbe == nil && c.StartupProbe == nil, restarts))
	if !init {
		probes.Go(func() {
			p.probe(probing, probed{c: c, pid: pid, env: env}, func(ready bool) {
				p.say(p.statusOf(c, running, init, ready, restarts))
			})
		})
	}
	select {
	case err = <-done:
	case <-ctx.Done():
	case <-p.stopped:
		p.preStop(ctx, c, pid, env)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-done:
		case <-ctx.Done():
		}
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL) // and whatever it has left
	if ctx.Err() != nil {
		err = <-done
	}
	return exitCode(err), nil
}

// preStop runs a container's hook, as long as the grace lets it.
func (p *pod) preStop(ctx context.Context, c *core.Container, pid int, env []string) {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return
	}
	switch hook := c.Lifecycle.PreStop; {
	case hook.Sleep != nil:
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(hook.Sleep.Seconds) * time.Second):
		}
	case hook.Exec != nil:
		cmd, err := p.inside(c, pid, hook.Exec.Command, env)
		if err != nil {
			return
		}
		cmd.Stdout, cmd.Stderr = p.log, p.log
		if cmd.Start() != nil {
			return
		}
		stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		stop()
		fmt.Fprintf(p.log, "podsandbox: the preStop hook ended with %d\n", exitCode(err))
	}
}

func exitCode(err error) int {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &ended):
		return 1
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return ended.ExitCode()
}

func (p *pod) isStopped() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

// wait reports whether the pod is still to run after it.
func (p *pod) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p.stopped:
		return false
	case <-time.After(d):
		return true
	}
}

func (p *pod) say(status core.PodStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}
