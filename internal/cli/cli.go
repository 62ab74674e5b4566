// Package cli is the commands that talk to a running service: run, engine, diagnose, probe. It knows the HTTP API
// and how to show its answers, and nothing of what stands behind it; commands that are the service
// (dev, server, worker) live in cmd/millrace.
//
// Data goes to stdout and everything said to a person to stderr, so that output can be piped. With -o json or
// yaml the server's own document is written, whole. Errors say what happened, why, and what to do
// next, and every kind has its exit code.
//
// Start reading at Commands, then server_calls.go.
package cli

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/settings"
)

// ServerOf is the server that the environment names, or the default one.
func ServerOf(getenv func(string) string) string {
	if url := getenv("MILLRACE_SERVER"); url != "" {
		return url
	}
	return apiclient.DefaultServer
}

// Deps is what the commands need of the process around them.
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

// Commands makes the client commands, to be added to a root command.
func Commands(d Deps) []*cobra.Command {
	return []*cobra.Command{newRunCommand(d), newEngineCommand(d), newFleetCommand(d),
		newDiagnoseCommand(d), newProbeCommand(d),
		newStatusCommand(d), newTelemetryCommand(d), newEventsCommand(d), newTopCommand(d)}
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
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v; see --help", err) })
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if s.format == "ndjson" && cmd.Annotations[lines] != "" {
			return nil
		}
		if s.format != "table" && s.format != "json" && s.format != "yaml" {
			return usage("-o %s: use table, json or yaml", s.format)
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
	server := s.server
	if server == "" {
		server = ServerOf(s.Getenv)
	}
	return NewClient(server, s.Getenv("MILLRACE_TOKEN"), s.HTTP)
}

// narrowest is a terminal that something can be shown on.
const narrowest = 40

func (s *session) width() int { return Width(s.Stdout, s.Getenv) }

// Width is the columns of the terminal behind w, or what COLUMNS says; 0 when w is no terminal or does not tell.
func Width(w io.Writer, getenv func(string) string) int {
	if !terminal(w) {
		return 0
	}
	columns, err := strconv.Atoi(getenv("COLUMNS"))
	if err != nil {
		columns = columnsOf(w)
	}
	if columns < narrowest {
		return 0
	}
	return columns
}

// columnsOf asks a terminal for its width; 0 when it does not say.
func columnsOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// terminal reports whether a person looks at what is written to w.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// NearestCommand is the command below cmd that somebody who wrote word most likely meant, or "".
func NearestCommand(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(word) // in the order of the alphabet: alike, or longer
	if longer := slices.IndexFunc(near, func(name string) bool { return strings.HasPrefix(name, word) }); longer >= 0 {
		return near[longer]
	}
	return settings.Nearest(word, near)
}

// group makes a command that only holds others. Cobra answers an unknown one with help and success; a script
// deserves better.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if near := NearestCommand(cmd, args[0]); near != "" {
				return usage("%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], near)
			}
			return usage("%s has no command %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
		},
	}
}

// exactly wants so many arguments, named as the usage line names them.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s, not %d: %s", cmd.CommandPath(), arguments(n), len(args), cmd.UseLine())
		}
		return nil
	}
}

// atLeast wants n arguments or more.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usage("%s takes at least %s, not %d: %s", cmd.CommandPath(), arguments(n), len(args), cmd.UseLine())
		}
		return nil
	}
}

func arguments(n int) string {
	switch n {
	case 0:
		return "no arguments"
	case 1:
		return "1 argument"
	}
	return strconv.Itoa(n) + " arguments"
}
