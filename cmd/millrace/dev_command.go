package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/supervise"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/process/temporalcli"
	"github.com/millrace/millrace/internal/rollout/demo"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// devOptions are the flags of `millrace dev`.
type devOptions struct {
	listen      string
	redis       string
	temporal    string
	temporalBin string
	uiPort      int
	engines     []string
	simulated   int
	speed       float64
	maxNumSeqs  int
	dataDir     string
	spec        string
	exit        bool
	noTrainer   bool
	journal     string
	dispatchLog string
}

func newDevCommand(env environment) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:  "dev",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDev(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8700", "address of the API; another port is taken when this one is in use")
	f.StringVar(&o.redis, "redis", os.Getenv("MILLRACE_DEV_REDIS_URL"),
		"use this Redis (redis://host:port/db) instead of the embedded one; "+
			"$MILLRACE_DEV_REDIS_URL keeps a password off the command line")
	f.Lookup("redis").DefValue = "" // which --help would show
	f.StringVar(&o.temporal, "temporal", "", "use this Temporal (host:port) instead of a dev server")
	f.StringVar(&o.temporalBin, "temporal-bin", "",
		"temporal CLI to run the dev server with (default $MILLRACE_TEMPORAL, then the PATH, then .bin/temporal)")
	f.IntVar(&o.uiPort, "ui-port", 0, "serve Temporal's web UI on this port; 0: no UI")
	f.StringSliceVar(&o.engines, "engine", nil,
		"use this vLLM engine (http://host:port) instead of simulated ones; repeatable")
	f.IntVar(&o.simulated, "engines", 0, "simulated engines (default: the spec's demo.engines, else 2)")
	f.Float64Var(&o.speed, "speed", 0, "divide all simulated times by this (default: the spec's demo.speed, else 1)")
	f.IntVar(&o.maxNumSeqs, "engine-max-num-seqs", 0,
		"sequences that a simulated engine runs at once (default: the spec's demo.engine_max_num_seqs, else 512)")
	f.StringVar(&o.dataDir, "data-dir", "", "keep Temporal's database and the logs here, across restarts; needs --redis")
	f.StringVar(&o.spec, "spec", "", "start this run, with the demo trainer, and show its progress")
	f.BoolVar(&o.exit, "exit", false, "with --spec: end when the run is over")
	f.StringVar(&o.journal, "journal", "", "with --spec: the demo trainer appends what it trained on to this file")
	f.StringVar(&o.dispatchLog, "dispatch-log", "", "the worker writes every event and decision of its dispatcher to "+
		"this file; see docs/engines.md")
	f.BoolVar(&o.noTrainer, "no-trainer", false, "with --spec: do not start the demo trainer; your own attaches")
	return cmd
}

// validate reports contradictions between flags.
func (o devOptions) validate() error {
	switch {
	case o.dataDir != "" && o.redis == "":
		return usage("--data-dir keeps Temporal's database across restarts, but the embedded Redis forgets everything: " +
			"add --redis redis://host:port")
	case o.exit && o.spec == "":
		return usage("--exit ends when a run is over: name the run with --spec FILE")
	case len(o.engines) > 0 && o.simulated > 0:
		return usage("--engine and --engines exclude each other: real engines or simulated ones")
	case o.simulated < 0 || o.speed < 0 || o.maxNumSeqs < 0:
		return usage("--engines, --speed and --engine-max-num-seqs must be positive")
	}
	for _, address := range o.engines {
		if _, err := fleet.NewMember(enginestate.Engine{URL: address}, time.Time{}); err != nil {
			return usage("--engine: %v", err)
		}
	}
	return nil
}

// devStack is what a running `millrace dev` has started.
type devStack struct {
	env      environment
	opts     devOptions
	demo     demo.Section
	group    *supervise.Group
	dir      string // logs, adapters, database
	self     string // this binary
	redis    string
	temporal string
	server   string // URL
	keep     bool   // something failed, and the logs may say why

	releaseLifeline func() // of engines that the service starts; nil: it is not held
}

func runDev(ctx context.Context, env environment, o devOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	var file specfile.File
	if o.spec != "" {
		var err error
		if file, err = env.readSpecFile(o.spec); err != nil {
			return err
		}
	}
	d := &devStack{env: env, opts: o, demo: demoOf(o, file.Demo)}
	defer d.stop(ctx)
	if err := d.start(ctx); err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		d.keep = true
		return err
	}
	if o.spec == "" {
		d.env.Say("up, with its page on %s/; Ctrl-C ends it all. Next: millrace run start "+
			"-f config/examples/diplomacy-qwen7b.yaml --server %s", d.server, d.server)
		<-ctx.Done()
		return errInterrupted
	}
	err := d.follow(ctx, file.Spec)
	if err == nil && o.exit {
		d.env.Say("its page was %s/runs/%s; to look at it after the run, leave out --exit: millrace dev --spec %s", d.server,
			file.Name, o.spec)
	}
	if err == nil && !o.exit {
		d.env.Say("the run is over; the services stay up until Ctrl-C; its page: %s/runs/%s", d.server, file.Name)
		<-ctx.Done()
		err = errInterrupted
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// demoOf is what to simulate: flags before the spec's file before the defaults.
func demoOf(o devOptions, file demo.Section) demo.Section {
	if o.simulated > 0 {
		file.Engines = o.simulated
	}
	if o.speed > 0 {
		file.Speed = o.speed
	}
	if o.maxNumSeqs > 0 {
		file.EngineMaxNumSeqs = o.maxNumSeqs
	}
	if file.Engines == 0 {
		file.Engines = 2
	}
	if file.Speed == 0 {
		file.Speed = 1
	}
	if file.MaxEngines > 0 {
		file.MaxEngines = max(file.MaxEngines, file.Engines)
	}
	return file
}

func (d *devStack) start(ctx context.Context) error {
	var err error
	if d.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := d.openDir(); err != nil {
		return err
	}
	report := func(e supervise.Event) { d.env.Say("%s %s", e.Name, e.Text) }
	d.group = supervise.NewGroup(filepath.Join(d.dir, "logs"), report)
	steps := []func(context.Context) error{d.prepareScaling, d.startRedis, d.startTemporal, d.startServer,
		d.startWorker, d.startEngines}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *devStack) openDir() error {
	d.dir = d.opts.dataDir
	if d.dir == "" {
		dir, err := os.MkdirTemp("", "millrace-dev-")
		if err != nil {
			return fmt.Errorf("make a folder for logs: %w", err)
		}
		d.dir = dir
	}
	return nil
}

func (d *devStack) startTemporal(ctx context.Context) error {
	if d.opts.temporal != "" {
		d.temporal = d.opts.temporal
		return awaitTemporal(ctx, d.temporal, 10*time.Second)
	}
	bin, err := temporalBinary(d.opts.temporalBin)
	if err != nil {
		return err
	}
	port, err := freeport.Port()
	if err != nil {
		return err
	}
	d.temporal = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := temporalcli.DevServer(strconv.Itoa(port))
	if d.opts.uiPort > 0 {
		if err := portFree(d.opts.uiPort); err != nil {
			return usage("--ui-port %d: %v; choose another, or 0 for no UI", d.opts.uiPort, err)
		}
		args = append(args, "--ui-port", strconv.Itoa(d.opts.uiPort))
	} else {
		args = append(args, "--headless")
	}
	if d.opts.dataDir != "" {
		args = append(args, "--db-filename", filepath.Join(d.dir, "temporal.db"))
	}
	d.env.Say("starting the Temporal dev server on %s", d.temporal)
	if err := d.spawn("temporal", bin, args...); err != nil {
		return err
	}
	answers := func(ctx context.Context) error { return awaitTemporal(ctx, d.temporal, time.Minute) }
	if err := d.comesUp(ctx, "temporal", answers); err != nil {
		return err
	}
	if d.opts.uiPort > 0 {
		d.env.Say("Temporal's web UI on http://127.0.0.1:%d", d.opts.uiPort)
	}
	return nil
}

// temporalBinary finds the temporal CLI: where the flag says, or where it usually is.
func temporalBinary(flag string) (string, error) {
	if flag == "" {
		return temporalcli.Find(os.Getenv, ".")
	}
	if info, err := os.Stat(flag); err != nil || info.IsDir() {
		return "", usage("--temporal-bin %s: no such file", flag)
	}
	return filepath.Abs(flag)
}

func awaitTemporal(ctx context.Context, address string, patience time.Duration) error {
	err := retry.Within(ctx, patience, 100*time.Millisecond, func(ctx context.Context) error {
		silent := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
		c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: silent})
		if err == nil {
			c.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("temporal at %s %w within %s: %w", address, connections.ErrNoAnswer, patience, err)
	}
	return nil
}

func (d *devStack) startRedis(ctx context.Context) error {
	if d.opts.redis != "" {
		d.redis = d.opts.redis
		return connections.AwaitRedis(ctx, d.redis)
	}
	port, err := freeport.Port()
	if err != nil {
		return err
	}
	embedded := miniredis.NewMiniRedis()
	if err := embedded.StartAddr(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		return fmt.Errorf("start the embedded Redis: %w", err)
	}
	go expireKeys(ctx, embedded)
	d.redis = "redis://" + embedded.Addr() + "/0"
	d.env.Say("embedded Redis on %s (kept in memory; --redis uses a real one)", embedded.Addr())
	return nil
}

// expireKeys has time pass in the embedded Redis, which does not look at a clock: or the leases of a server that was
// killed would never end.
func expireKeys(ctx context.Context, embedded *miniredis.Miniredis) {
	const every = 200 * time.Millisecond
	for was := time.Now(); retry.Pause(ctx, every) == nil; {
		now := time.Now()
		embedded.FastForward(now.Sub(was))
		was = now
	}
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

// stop ends all children; a second Ctrl-C ends them without patience.
func (d *devStack) stop(ctx context.Context) {
	if d.group != nil {
		if ctx.Err() != nil {
			d.env.Say("stopping; Ctrl-C again kills")
		}
		impatient, done := d.env.secondInterrupt(ctx)
		d.group.Stop(impatient)
		d.stopScaled(ctx, impatient)
		done()
	}
	if d.keep && d.dir != "" {
		d.env.Say("the logs are kept in %s", filepath.Join(d.dir, "logs"))
	} else if d.dir != "" && d.opts.dataDir == "" {
		_ = os.RemoveAll(d.dir) // a temporary folder
	}
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

// portFree reports why nothing can listen on a port of this machine.
func portFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
