package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/progressline"
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
