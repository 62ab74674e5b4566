//go:build linux

package podsandbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
)

// probed is a container that runs.
type probed struct {
	c   *core.Container
	pid int
	env []string
}

// probe asks a container whether it has started, and from then on whether it lives and is ready, until ctx is done. One
// that does not live is told to end.
func (p *pod) probe(ctx context.Context, it probed, ready func(bool)) {
	if it.c.StartupProbe != nil && !p.repeat(ctx, it, it.c.StartupProbe, true) {
		p.kill(ctx, it, "startup")
		return
	}
	if it.c.LivenessProbe != nil {
		go func() {
			if !p.repeat(ctx, it, it.c.LivenessProbe, false) {
				p.kill(ctx, it, "liveness")
			}
		}()
	}
	if it.c.ReadinessProbe == nil {
		ready(true)
		return
	}
	probe := it.c.ReadinessProbe
	failures, is := 0, false
	for p.next(ctx, probe, failures == 0 && !is) {
		err := p.ask(ctx, it, probe)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
		} else {
			failures++
		}
		if now := err == nil || is && failures < int(probe.FailureThreshold); now != is {
			is = now
			ready(now)
		}
	}
}

// kill ends a container that has failed a probe.
func (p *pod) kill(ctx context.Context, it probed, which string) {
	if ctx.Err() != nil {
		return
	}
	fmt.Fprintf(p.log, "podsandbox: the %s probe has failed; the container is ended\n", which)
	_ = syscall.Kill(it.pid, syscall.SIGTERM)
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
		_ = syscall.Kill(-it.pid, syscall.SIGKILL)
	}
}

// repeat asks until the probe has failed as often as it may, which is false, or, where first, has succeeded once.
func (p *pod) repeat(ctx context.Context, it probed, probe *core.Probe, first bool) bool {
	failures := 0
	for begin := true; p.next(ctx, probe, begin); begin = false {
		err := p.ask(ctx, it, probe)
		if ctx.Err() != nil {
			return true
		}
		switch {
		case err == nil && first:
			return true
		case err == nil:
			failures = 0
		default:
			failures++
		}
		if failures >= int(probe.FailureThreshold) {
			fmt.Fprintf(p.log, "podsandbox: probe: %v\n", err)
			return false
		}
	}
	return true
}

// next waits for the time of the next question; the first comes after the probe's delay.
func (p *pod) next(ctx context.Context, probe *core.Probe, first bool) bool {
	after := time.Duration(probe.PeriodSeconds) * time.Second
	if first {
		after = max(time.Duration(probe.InitialDelaySeconds)*time.Second, 200*time.Millisecond)
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(after):
		return true
	}
}

// ask is one question.
func (p *pod) ask(ctx context.Context, it probed, probe *core.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	switch {
	case probe.Exec != nil:
		cmd, err := p.inside(it.c, it.pid, probe.Exec.Command, it.env)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() {
			if cmd.Process != nil {
				_ = cmd.Process.Kill()
			}
		})
		defer stop()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	case probe.HTTPGet != nil:
		return p.get(ctx, it.c, probe.HTTPGet)
	}
	return nil
}

// get takes any certificate, as kubelets do.
func (p *pod) get(ctx context.Context, c *core.Container, g *core.HTTPGetAction) error {
	port := g.Port.String()
	for _, named := range c.Ports {
		if named.Name == port {
			port = strconv.Itoa(int(named.ContainerPort))
		}
	}
	scheme := strings.ToLower(cmp.Or(string(g.Scheme), "http"))
	url := scheme + "://" + net.JoinHostPort(p.address.String(), port) + g.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}
