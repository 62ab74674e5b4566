package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/kit/version"
	"github.com/millrace/millrace/internal/observe/axiom/resources"
	"github.com/millrace/millrace/internal/process/connections"

	"github.com/millrace/millrace/internal/simulate/setup"
)

// environment is the process around the commands, which those below it share with the client's.
type environment struct{ cli.Deps }

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := environment{cli.Deps{Stdin: stdin, Stdout: stdout, Stderr: stderr, HTTP: &http.Client{}, Getenv: os.Getenv}}
	if err := env.trust(os.Getenv("MILLRACE_CA_FILE")); err != nil {
		fmt.Fprintln(stderr, "millrace:", err)
		return cli.ExitUsage
	}
	root := newRootCommand(env)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !interrupted(ctx, err) {
		fmt.Fprintln(stderr, "millrace:", termtext.Block(err.Error()))
	}
	if ctx.Err() != nil && err != nil {
		err = errInterrupted
	}
	return exitCode(err)
}

// trust has clients of an https server trust the authorities of a file, besides the system's own.
func (e *environment) trust(file string) error {
	if file == "" {
		return nil
	}
	pem, err := e.ReadFile(file)
	if err != nil {
		return fmt.Errorf("MILLRACE_CA_FILE: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // This system has none of its own.
	}
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("MILLRACE_CA_FILE: %s holds no certificate in PEM", file)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	e.HTTP.Transport = transport
	return nil
}

// interrupted reports whether a command ended by Ctrl-C or SIGTERM, which is no fault and needs no message.
func interrupted(ctx context.Context, err error) bool {
	if errors.Is(err, errInterrupted) {
		return true
	}
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

func newRootCommand(env environment) *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace",
		Version:       version.Build().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cli.Group(root, "Run the service:", newDevCommand(env), newServerCommand(env), newWorkerCommand(env),
		newHealthCommand(env), newConfigCommand(env), newTrainerCommand(env))
	cli.Group(root, "Use it:", cli.Commands(env.Deps)...)
	cli.Group(root, "Before anything is rented:", newSimulateCommand(env, setup.Simulator()), newPlanCommand(env),
		newBenchCommand(env))
	below(root, "worker", cli.WorkerListCommand(env.Deps))
	below(root, "engine", newSimulateEngineCommand(env), newCalibrateEngineCommand(env), newOrphanEnginesCommand(env),
		newKeepEngineCommand(), newInstallCommand(env))
	below(root, "axiom", newAxiomApplyCommand(env))
	below(root, "simulate", newProfilesCommand(env))
	root.SetVersionTemplate("{{.Version}}\n")
	cli.Finish(root)
	return root
}

// below adds commands below one that is there.
func below(root *cobra.Command, name string, commands ...*cobra.Command) {
	parent, _, err := root.Find([]string{name})
	if err != nil {
		panic(err) // the program is broken
	}
	parent.AddCommand(commands...)
}

// errInterrupted ends a command that Ctrl-C or SIGTERM has ended; nothing more is said.
var errInterrupted = cli.WithCode(errors.New("interrupted"), cli.ExitInterrupted)

// usage is a command line that cannot be meant.
func usage(format string, args ...any) error { return cli.Usage(format, args...) }

// exitCode is the exit code for how a command ended: what the command line itself knows, and what only processes of the
// service end with.
func exitCode(err error) int {
	code := cli.ExitCode(err)
	switch {
	case code != cli.ExitError:
		return code
	case errors.Is(err, resources.ErrRefused):
		return cli.ExitAuth
	case errors.Is(err, connections.ErrNoAnswer):
		return cli.ExitUnavailable
	}
	return code
}

// serviceLogger writes structured lines to stderr, from the level on that the configuration has at the time.
func (e environment) serviceLogger(cfg *config.Service) *slog.Logger {
	level := new(slog.LevelVar)
	if l, err := logLevel(cfg.LogLevel); err == nil { // ReadService has checked it
		level.Set(l)
	}
	if cfg.Source != nil {
		cfg.Source.LogLevel = level
	}
	return slog.New(slog.NewTextHandler(e.Stderr, &slog.HandlerOptions{Level: level}))
}

// logLevel is a level by its name; info where none is named.
func logLevel(name string) (slog.Level, error) {
	var level slog.Level
	if name == "" {
		return slog.LevelInfo, nil
	}
	err := level.UnmarshalText([]byte(name))
	return level, err
}

// secondInterrupt returns a channel that is closed when Ctrl-C comes again while a command winds up.
func (e environment) secondInterrupt(ctx context.Context) (impatient <-chan struct{}, done func()) {
	again, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt)
	return again.Done(), stop
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

// readSpecFile reads a run spec from a file, or from standard input for "-".
func (e environment) readSpecFile(path string) (specfile.File, error) {
	data, err := e.ReadFile(path)
	if err != nil {
		return specfile.File{}, fmt.Errorf("read spec: %w", err)
	}
	return specfile.Read(path, data)
}
