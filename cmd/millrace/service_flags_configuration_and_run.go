package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/process/pprofserver"
)

// serviceFlags are shared by the processes of the service; each overrides its line of the configuration file.
type serviceFlags struct {
	file     string
	listen   string
	probes   string
	dispatch string // file of the dispatch log
	redis    string
	temporal string
	logLevel string
	pprof    string // address of the profiles
}

func (f *serviceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "service configuration (YAML; default $MILLRACE_CONFIG); "+
		"see config/examples/service.yaml")
	flags.StringVar(&f.redis, "redis", "", "Redis, as redis://host:port/db, redis+sentinel://... or "+
		"redis+cluster://... (docs/guarantees.md)")
	flags.StringVar(&f.temporal, "temporal", "", "Temporal, as host:port")
	flags.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error (default: log_level of the configuration, "+
		"and info without)")
	flags.StringVar(&f.pprof, "pprof", "", "address for the Go runtime's profiles, 127.0.0.1:PORT; none by default, "+
		"and only loopback is accepted")
}

// ended gives a process that ends for a faulty configuration the exit code by which whatever starts it again, such as
// systemd, knows that this is of no use.
func ended(err error) error {
	if errors.Is(err, settings.ErrFaulty) {
		return cli.WithCode(err, cli.ExitConfiguration)
	}
	return err
}

// unreadable is a configuration file that cannot be read, which is a fault of the configuration.
type unreadable struct{ error }

func (unreadable) Is(target error) bool { return target == settings.ErrFaulty }

// serve runs a process of the service by its configuration.
func (f *serviceFlags) serve(ctx context.Context, env environment,
	run func(context.Context, config.Service, *slog.Logger) error) error {
	cfg, err := f.service(env)
	if err != nil {
		return ended(err)
	}
	log := env.serviceLogger(&cfg)
	return ended(f.profiled(ctx, log, func(ctx context.Context) error { return run(ctx, cfg, log) }))
}

// profiled runs a process of the service, with its profiles beside it if they are asked for.
func (f *serviceFlags) profiled(ctx context.Context, log *slog.Logger, run func(context.Context) error) error {
	if f.pprof == "" {
		return run(ctx)
	}
	g, ctx := errgroup.WithContext(ctx)
	beside, end := context.WithCancel(ctx)
	g.Go(func() error { return pprofserver.Serve(beside, f.pprof, log) })
	g.Go(func() error {
		defer end()
		return run(ctx)
	})
	return g.Wait()
}

// service reads the configuration: file, then environment, then flags, which are checked like the rest.
func (f *serviceFlags) service(env environment) (config.Service, error) {
	if _, err := logLevel(f.logLevel); err != nil {
		return config.Service{}, usage("--log-level %s: use debug, info, warn or error", f.logLevel)
	}
	if f.pprof != "" {
		if err := pprofserver.CheckAddress(f.pprof); err != nil {
			return config.Service{}, usage("--pprof: %v", err)
		}
	}
	file := cmp.Or(f.file, os.Getenv("MILLRACE_CONFIG"))
	var data []byte
	if file != "" {
		var err error
		if data, err = env.ReadFile(file); err != nil {
			return config.Service{}, cli.WithCode(unreadable{fmt.Errorf("read configuration: %w", err)}, cli.ExitUsage)
		}
	}
	cfg, err := config.ReadService(cmp.Or(file, "configuration"), data, f.getenv)
	if err == nil && file != "" && file != "-" {
		cfg.Source = &config.Source{File: file, Read: func() (config.Service, error) { return f.service(env) }}
	}
	return cfg, err
}

// getenv is the environment with the flags in the place of the variables that say the same.
func (f *serviceFlags) getenv(name string) string {
	flag := map[string]string{
		"MILLRACE_LISTEN": f.listen, "MILLRACE_LOG_LEVEL": strings.ToLower(f.logLevel),
		"MILLRACE_WORKER_LISTEN": f.probes, "MILLRACE_DISPATCH_LOG": f.dispatch,
		"MILLRACE_REDIS_URL": f.redis, "TEMPORAL_ADDRESS": f.temporal,
	}[name]
	if flag != "" {
		return flag
	}
	return os.Getenv(name)
}
