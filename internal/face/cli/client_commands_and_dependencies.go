// Package cli is the command line: how a command of millrace is declared, what it answers and how it ends, and the
// commands that talk to a running service. These know the HTTP API and how to show its answers, and nothing of what
// stands behind it. Commands that are the service or read its files (dev, server, worker, plan, simulate) are declared
// in the same way in cmd/millrace.
//
// Data goes to stdout and everything said to a person to stderr, so that output can be piped. With -o json or
// yaml the server's own document is written, whole. Errors say what happened, why, and what to do
// next, and every kind has its exit code.
//
// Start reading at Commands, then Deps.
package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/termtext"
)

// Deps are the commands' links to the process around them.
type Deps struct {
	Stdin  io.Reader
	Stdout io.Writer // data
	Stderr io.Writer // everything said to a person
	HTTP   *http.Client
	Getenv func(string) string
	Now    func() time.Time // nil means time.Now
}

func (d Deps) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

// Say tells a person something.
func (d Deps) Say(format string, args ...any) {
	fmt.Fprintln(d.Stderr, termtext.Block(fmt.Sprintf(format, args...)))
}

// Server is the server that the environment names, or the default one.
func (d Deps) Server() string {
	if url := d.Getenv("MILLRACE_SERVER"); url != "" {
		return url
	}
	return apiclient.DefaultServer
}

// Client calls a server, with the environment's token.
func (d Deps) Client(server string) (Client, error) {
	return NewClient(server, d.Getenv("MILLRACE_TOKEN"), d.HTTP)
}

// maxFileBytes bounds a file named on a command line: saved games are the largest.
const maxFileBytes = 64 << 20

// ReadFile reads a file, or standard input for "-".
func (d Deps) ReadFile(path string) ([]byte, error) {
	r := d.Stdin
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
		err = Usage("%s is larger than %d MiB", path, maxFileBytes>>20)
	}
	return data, err
}

// Commands makes the client commands, to be added to a root command that Finish makes ready.
func Commands(d Deps) []*cobra.Command {
	return []*cobra.Command{newRunCommand(d), newEngineCommand(d), newDiagnoseCommand(d), newStatusCommand(d),
		newAxiomCommand(d), newEventsCommand(d), newTopCommand(d)}
}

// Group adds commands under a heading of their parent's help.
func Group(parent *cobra.Command, heading string, commands ...*cobra.Command) {
	parent.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, c := range commands {
		c.GroupID = heading
	}
	parent.AddCommand(commands...)
}

// Finish makes a root command and all below it ready: each has its help, and whatever is wrong with a command line ends
// with ExitUsage and says what to write.
func Finish(root *cobra.Command) {
	writeHelp(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage("%v; see --help", err) })
	refuseWrongArguments(root)
}

// refuseWrongArguments makes cobra's complaints about arguments usage errors. A command that only holds others refuses
// an unknown subcommand: cobra would print help and exit with success, which misleads scripts.
func refuseWrongArguments(cmd *cobra.Command) {
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
			return Usage("%v: %s; see %s --help", err, cmd.UseLine(), cmd.CommandPath())
		}
		return nil
	}
	for _, c := range cmd.Commands() {
		refuseWrongArguments(c)
	}
}

// onlyCommands refuses a word that names no command, with the nearest one that does.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := nearestCommand(cmd, args[0]); near != "" {
		return fmt.Errorf("unknown command %q for %q; did you mean %s?", args[0], cmd.CommandPath(), near)
	}
	return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
}

// nearestCommand is the command below cmd that word most likely means, or "".
func nearestCommand(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(word) // in the order of the alphabet: alike, or longer
	if longer := slices.IndexFunc(near, func(name string) bool { return strings.HasPrefix(name, word) }); longer >= 0 {
		return near[longer]
	}
	return settings.Nearest(word, near)
}

// session is what one command line asked for: a server, and how to show its answers.
type session struct {
	Deps
	server string
	format string
}

// flags adds the flags that every client command has.
func (s *session) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&s.server, "server", "", "URL of the API (default $MILLRACE_SERVER, else "+apiclient.DefaultServer+")")
	f.StringVarP(&s.format, "output", "o", "table", "table, json or yaml; for what goes on, ndjson too")
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if s.format == "ndjson" && cmd.Annotations[lines] != "" {
			return nil
		}
		if !slices.Contains([]string{"table", "json", "yaml"}, s.format) {
			return Usage("-o %s: use table, json or yaml", s.format)
		}
		return nil
	}
}

// lines annotates commands that can write a line of JSON for everything they see.
const lines = "lines"

func withLines(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{lines: "ndjson"}
	return cmd
}

// client connects to the server that the flags and the environment name.
func (s *session) client() (Client, error) {
	if s.server != "" {
		return s.Client(s.server)
	}
	return s.Client(s.Server())
}

// on makes a command that asks the server, and knows no names.
func (s *session) on(use string, do func(ctx context.Context, c Client) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			return do(cmd.Context(), c)
		},
	}
}
