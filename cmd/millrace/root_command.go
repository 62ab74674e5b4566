package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/kit/version"

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
	cli.Group(root, "Before anything is rented:", newSimulateCommand(env, setup.Simulator()), newPlanCommand(env))
	below(root, "worker", cli.WorkerListCommand(env.Deps))
	below(root, "engine", newSimulateEngineCommand(env), newCalibrateEngineCommand(env), newOrphanEnginesCommand(env),
		newKeepEngineCommand(), newInstallCommand(env), newBenchEnginesCommand(env))
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
