package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/progressline"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/supervise"
)

// childEnvironment says whose children these are, in a list of processes, and where Redis is: its address may hold
// a password, which everybody on the machine could read among the arguments.
func (d *devStack) childEnvironment() []string {
	env := []string{fmt.Sprintf("MILLRACE_DEV=%d", os.Getpid()), "MILLRACE_REDIS_URL=" + d.redis,
		"MILLRACE_SPOOL_DIR=" + filepath.Join(d.dir, "spool")}
	if d.opts.temporal == "" && d.opts.uiPort > 0 {
		env = append(env, fmt.Sprintf("TEMPORAL_UI_URL=http://127.0.0.1:%d", d.opts.uiPort))
	}
	if d.scales() {
		env = append(env, "MILLRACE_CONFIG="+d.serviceFile())
	}
	return env
}

func (d *devStack) serverArgs(address string) []string {
	return []string{"server", "--listen", address, "--temporal", d.temporal}
}

func (d *devStack) workerArgs() []string {
	args := []string{"worker", "--temporal", d.temporal}
	if d.opts.dispatchLog != "" {
		args = append(args, "--dispatch-log", d.opts.dispatchLog)
	}
	return args
}

// spawn starts a child that is started again whenever it ends.
func (d *devStack) spawn(name, path string, args ...string) error {
	return d.group.Start(supervise.Process{Name: name, Path: path, Args: args, Env: d.childEnvironment()})
}

// hopeless is after how many ends a child that has not come up yet is given up.
const hopeless = 3

// comesUp waits with await until the child answers, but not longer than there is hope. The log may be in a
// temporary folder that is about to be removed, so the error has its end.
func (d *devStack) comesUp(ctx context.Context, name string, await func(context.Context) error) error {
	line := progressline.Start(d.env.Stderr, "waiting for "+name)
	defer line.End()
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	answered := make(chan error, 1)
	go func() { answered <- await(waiting) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-answered:
			if err != nil {
				return fmt.Errorf("%s does not come up: %w%s", name, err, lastWords(d.group.LogFile(name)))
			}
			return nil
		case <-tick.C:
		}
		if ends := d.group.Ends(name); ends >= hopeless && waiting.Err() == nil {
			giveUp()
			<-answered
			return fmt.Errorf("%s does not come up: it ended %d times%s", name, ends, lastWords(d.group.LogFile(name)))
		}
	}
}

// lastWords is the end of a log, for an error.
func lastWords(file string) string {
	const lines = 8
	text, err := os.ReadFile(file) // of a child that never came up
	if text = bytes.TrimSpace(text); err != nil || len(text) == 0 {
		return ""
	}
	all := strings.Split(string(text), "\n")
	return "; the last that it said:\n  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

func (d *devStack) startServer(ctx context.Context) error {
	address, err := listenAddress(d.opts.listen)
	if err != nil {
		return err
	}
	if address != d.opts.listen && !strings.HasSuffix(d.opts.listen, ":0") {
		d.env.Say("%s is in use; taking %s", d.opts.listen, address)
	}
	d.server = "http://" + address
	err = d.spawn("server", d.self, d.serverArgs(address)...)
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return d.env.awaitHealthy(ctx, d.server+"/readyz", time.Minute) }
	err = d.comesUp(ctx, "server", ready)
	if err != nil {
		return err
	}
	d.env.Say("API server on %s (OpenAPI: %s/openapi.json); its page, in a browser: %s/", d.server, d.server, d.server)
	return nil
}

func (d *devStack) startWorker(context.Context) error {
	if err := d.spawn("worker", d.self, d.workerArgs()...); err != nil {
		return err
	}
	d.env.Say("worker running, process %d; kill -9 it and see; logs in %s",
		d.group.PID("worker"), filepath.Join(d.dir, "logs"))
	return nil
}

// listenAddress is want, or the same host with a free port when want is in use.
func listenAddress(want string) (string, error) {
	host, port, err := net.SplitHostPort(want)
	if err != nil {
		return "", usage("--listen %s: want host:port, as in 127.0.0.1:8700", want)
	}
	if port != "0" {
		if l, err := net.Listen("tcp", want); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return freeport.On(host)
}

// awaitHealthy polls url until it answers 200.
func (e environment) awaitHealthy(ctx context.Context, url string, patience time.Duration) error {
	healthy := func(ctx context.Context) error { return e.healthy(ctx, url) }
	if err := retry.Within(ctx, patience, 50*time.Millisecond, healthy); err != nil {
		return fmt.Errorf("%s is not ready within %s: %w", url, patience, err)
	}
	return nil
}

func (e environment) healthy(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := e.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
