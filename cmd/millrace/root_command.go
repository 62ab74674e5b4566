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
	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/connections"
	"github.com/millrace/millrace/internal/environments"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/axiom/resources"
	"github.com/millrace/millrace/internal/termtext"
	"github.com/millrace/millrace/internal/version"
)

// environment is what commands need of the process around them.
type environment struct {
	stdin  io.Reader
	stdout io.Writer // data
	stderr io.Writer // everything said to a person
	http   *http.Client
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := environment{stdin: stdin, stdout: stdout, stderr: stderr, http: &http.Client{}}
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
	pem, err := e.readFile(file)
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
	e.http.Transport = transport
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
		Use:   "millrace",
		Short: "RL rollout orchestration: plays games on vLLM engines, feeds a trainer, says why a step was slow",
		Long: `Millrace keeps a rollout buffer of configurable depth full with games played against horizontally scaled vLLM engines, feeds a
trainer from it exactly once per step, and says why a step was slow.

Start with:  millrace dev            everything on this machine
             millrace run start -f   a training run
             millrace diagnose RUN   why its steps take as long as they do
             millrace simulate -f    what a run would do, in virtual time, before anything is rented

` + cli.ExitCodesHelp,
		Version:       version.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v; see --help", err) })
	deps := env.clientDeps()
	root.AddCommand(cli.Commands(deps)...)
	under(root, "engine").AddCommand(newSimulateEngineCommand(env), newKeepEngineCommand(), newOrphanEnginesCommand(env))
	root.AddCommand(newChaosCommand(env), newIsolationCommand(env), newPredictCommand(env),
		newDevCommand(env), newServerCommand(env), newHealthCommand(env),
		newWorkerCommand(env), newTrainerCommand(env), newConfigCommand(env), newTokenCommand(env), newGameCommand(env),
		newBenchCommand(env), newProfileCommand(env),
		newSimulateCommand(env, environments.Simulator()), newExperimentCommand(env),
		newPlanCommand(env), newAxiomCommand(env), newInstallCommand(env), newVersionCommand(env))
	cli.AddWorkerCommands(under(root, "worker"), deps)
	wrongArgumentsAreUsage(root)
	foldHelp(root)
	return root
}

// clientDeps is the process as client commands need it.
func (e environment) clientDeps() cli.Deps {
	return cli.Deps{Stdin: e.stdin, Stdout: e.stdout, Stderr: e.stderr, HTTP: e.http, Getenv: os.Getenv}
}

// wrongArgumentsAreUsage makes cobra's own complaints about arguments usage errors, for every command. A command
// that only holds others complains about a word that names none of them.
func wrongArgumentsAreUsage(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil && !cmd.Runnable() {
		check = onlyCommands
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return usage("%v; see %s --help", err, cmd.CommandPath())
		}
		return nil
	}
	for _, c := range cmd.Commands() {
		wrongArgumentsAreUsage(c)
	}
}

// onlyCommands refuses a word that names no command, with the nearest one that does.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cli.NearestCommand(cmd, args[0]); near != "" {
		return fmt.Errorf("unknown command %q for %q; did you mean %s?", args[0], cmd.CommandPath(), near)
	}
	return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
}

// under finds a top command that the client commands have brought.
func under(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	panic("no command " + name)
}

// errInterrupted ends a command that Ctrl-C or SIGTERM has ended; nothing more is said.
var errInterrupted = errors.New("interrupted")

// usageError is a command line that cannot be meant.
type usageError struct {
	text  string
	cause error // nil: the text says it all
}

func (e usageError) Error() string { return e.text }

func (e usageError) Unwrap() error { return e.cause }

func usage(format string, args ...any) error { return usageError{text: fmt.Sprintf(format, args...)} }

func exitCode(err error) int {
	var wrong usageError
	var ended serviceEnd
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.Is(err, errInterrupted):
		return cli.ExitInterrupted
	case errors.As(err, &ended) && errors.Is(err, config.ErrFaulty):
		return cli.ExitConfiguration
	case errors.As(err, &wrong):
		return cli.ExitUsage
	case errors.Is(err, resources.ErrRefused):
		return cli.ExitAuth
	case errors.Is(err, connections.ErrNoAnswer):
		return cli.ExitUnavailable
	default:
		return cli.ExitCode(err)
	}
}

// client speaks to a server.
func (e environment) client(server string) (cli.Client, error) {
	return cli.NewClient(server, os.Getenv("MILLRACE_TOKEN"), e.http)
}

// say tells a person something.
func (e environment) say(format string, args ...any) {
	fmt.Fprintln(e.stderr, termtext.Block(fmt.Sprintf(format, args...)))
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
	return slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level}))
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
	resp, err := e.http.Do(req)
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
func (e environment) readSpecFile(path string) (rollout.Spec, error) {
	data, err := e.readFile(path)
	if err != nil {
		return rollout.Spec{}, fmt.Errorf("read spec: %w", err)
	}
	return environments.ReadSpec(path, data)
}

// maxFileBytes bounds what is read into memory of a file that a command line names: saved games are the largest.
const maxFileBytes = 64 << 20

// readFile reads a file, or standard input for "-".
func (e environment) readFile(path string) ([]byte, error) {
	r := e.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close() // it is only read
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d MiB", path, maxFileBytes>>20)
	}
	return data, err
}

// silentLogger drops what the Temporal client says while a server is being waited for.
type silentLogger struct{}

func (silentLogger) Debug(string, ...any) {}
func (silentLogger) Info(string, ...any)  {}
func (silentLogger) Warn(string, ...any)  {}
func (silentLogger) Error(string, ...any) {}
