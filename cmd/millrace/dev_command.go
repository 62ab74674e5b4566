package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/supervise"
	"github.com/millrace/millrace/internal/rollout/demo"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// devOptions are the flags of `millrace dev`.
type devOptions struct {
	listen      string
	listens     bool // where it was told to
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
	learn       bool
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
			o.listens = cmd.Flags().Changed("listen")
			return runDev(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8700", "address of the API; another port is taken when the default "+
		"is in use")
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
	f.BoolVar(&o.learn, "learn", false, "have a small policy learn and show its reward: in tic-tac-toe, unless --spec "+
		"names another run")
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
	case o.exit && !o.runs():
		return usage("--exit ends when a run is over: name the run with --spec FILE")
	case o.learn && (o.noTrainer || len(o.engines) > 0):
		return usage("--learn needs simulated engines and the demo trainer: leave out --engine and --no-trainer")
	case len(o.engines) > 0 && o.simulated > 0:
		return usage("--engine and --engines exclude each other: real engines or simulated ones")
	case o.simulated < 0 || o.speed < 0 || o.maxNumSeqs < 0:
		return usage("--engines, --speed and --engine-max-num-seqs must be positive")
	}
	if o.listens {
		l, err := net.Listen("tcp", o.listen)
		if err != nil {
			return usage("--listen: %v; leave it out to take another port", err)
		}
		l.Close()
	}
	for _, address := range o.engines {
		if _, err := fleet.NewMember(enginestate.Engine{URL: address}, time.Time{}); err != nil {
			return usage("--engine: %v", err)
		}
	}
	return nil
}

// runs reports whether a run is started.
func (o devOptions) runs() bool { return o.spec != "" || o.learn }

// file reads the run to be started, if one is.
func (o devOptions) file(env environment) (specfile.File, error) {
	switch {
	case o.spec != "":
		return env.readSpecFile(o.spec)
	case o.learn:
		return specfile.Read("learn.yaml", learnSpec)
	}
	return specfile.File{}, nil
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
	file, err := o.file(env)
	if err != nil {
		return err
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
	if !o.runs() {
		d.env.Say("up, with its page on %s/; Ctrl-C ends it all. Next: millrace run start "+
			"-f config/examples/diplomacy-qwen7b.yaml --server %s", d.server, d.server)
		<-ctx.Done()
		return errInterrupted
	}
	err = d.follow(ctx, file.Spec)
	if err == nil && o.exit {
		d.env.Say("its page was %s/runs/%s; to look at it after the run, leave out --exit", d.server, file.Name)
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
	file.Engines = cmp.Or(file.Engines, 2)
	file.Speed = cmp.Or(file.Speed, 1)
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
	return os.MkdirAll(d.dir, 0o755)
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

// secondInterrupt returns a channel that is closed when Ctrl-C comes again while a command winds up.
func (e environment) secondInterrupt(ctx context.Context) (impatient <-chan struct{}, done func()) {
	again, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt)
	return again.Done(), stop
}

// readSpecFile reads a run spec from a file, or from standard input for "-".
func (e environment) readSpecFile(path string) (specfile.File, error) {
	data, err := e.ReadFile(path)
	if err != nil {
		return specfile.File{}, fmt.Errorf("read spec: %w", err)
	}
	return specfile.Read(path, data)
}
