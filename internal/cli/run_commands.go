package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/spec"
)

func newRunCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	cmd := group("run", "Start, watch and change training runs",
		"Start, watch and change training runs.\n\n"+ExitCodesHelp)
	s.flags(cmd)
	cmd.AddCommand(s.startCommand(), s.listCommand(), s.showCommand(), s.stepsCommand(), s.watchCommand(), s.setCommand(),
		s.pauseCommand(true), s.pauseCommand(false), s.stopCommand(), s.deleteCommand(), s.archiveCommand(),
		s.cloneCommand(), s.rewindCommand(), s.waitsCommand(), s.eventsCommand(), s.logsCommand(),
		s.compareCommand(), s.recordCommand())
	return cmd
}

// onRun makes a command whose first argument is a run.
func (s *session) onRun(use, short string, args cobra.PositionalArgs,
	do func(ctx context.Context, c Client, run rollout.RunName, rest []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args, ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			run := rollout.RunName(args[0])
			if err := run.ValidateID(); err != nil {
				return usage("%v", err)
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			return do(cmd.Context(), c, run, args[1:])
		},
	}
}

// maxSpec bounds a spec file, as the server does.
const maxSpec = 1 << 20

func (s *session) startCommand() *cobra.Command {
	var file string
	var watch bool
	cmd := &cobra.Command{
		Use:   "start -f FILE",
		Short: "Start a run from a spec",
		Long: "Start a run from a spec in YAML or JSON. Starting the same spec again finds the run that is there; another " +
			"spec under its\n" +
			"name is refused.",
		Example: "  millrace run start -f config/examples/diplomacy-qwen7b.yaml\n  cat spec.yaml | millrace run " +
			"start -f - --watch",
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := s.readFile(file)
			if err != nil {
				return err
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			status, a, err := c.start(cmd.Context(), spec)
			if err != nil {
				return inFile(err, file)
			}
			name := status.Spec.Name
			if a.Status == http.StatusCreated {
				s.say("run %s started; follow it with: millrace run watch %s", name, name)
				if status.Spec.Group.Samples == 1 {
					s.say("note: group.samples is 1: the rewards of one game do not vary within its group, and every advantage is 0")
				}
			} else if status.State.Over() {
				return fmt.Errorf("run %s is %s already and was not started again; start its spec under another name with: "+
					"millrace run clone %s NEW, or delete it first with: millrace run delete %s", name, status.State, name, name)
			} else {
				s.say("run %s was there already, with the same spec; it is %s at step %d", name, status.State, status.NextStep)
			}
			if watch {
				_, err := s.watch(cmd.Context(), c, name, s.Stdout)
				return err
			}
			return s.show(a.Body, func() error { return s.write(runsTable([]rollout.RunStatus{status}, s.now())) })
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the spec; - reads standard input")
	cmd.Flags().BoolVar(&watch, "watch", false, "watch the run until it is over")
	return cmd
}

func (s *session) readFile(name string) ([]byte, error) {
	var data []byte
	var err error
	switch name {
	case "":
		return nil, usage("which spec? name a file with -f, or - for standard input")
	case "-":
		data, err = io.ReadAll(io.LimitReader(s.Stdin, maxSpec+1))
	default:
		data, err = readFirst(name, maxSpec+1)
	}
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s is empty; see config/examples for run specs", name)
	}
	if len(data) > maxSpec {
		return nil, usage("%s is no run spec: it is larger than %d bytes", name, maxSpec)
	}
	return data, nil
}

// readFirst reads a file, or as much of one that may have no end.
func readFirst(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// inFile gives the faults of a spec the name of the file that it came from; to the server it is only a request.
func inFile(err error, file string) error {
	var p *apiclient.Problem
	if file == "-" || !errors.As(err, &p) {
		return err
	}
	p.Detail = strings.ReplaceAll(p.Detail, "request:", file+":")
	for i := range p.Errors {
		fault := &p.Errors[i]
		fault.Message = strings.ReplaceAll(fault.Message, "request:", file+":")
		fault.Location = strings.Replace(fault.Location, "request:", file+":", 1)
	}
	return err
}

// place is where a server found a fault in a spec that it was sent.
var place = regexp.MustCompile(`request:[0-9]+:[0-9]+: `)

// inNoFile gives the faults of a spec that no person wrote without their places.
func inNoFile(err error) error {
	var p *apiclient.Problem
	if errors.As(err, &p) {
		p.Detail = place.ReplaceAllString(p.Detail, "")
		for i := range p.Errors {
			p.Errors[i].Message = place.ReplaceAllString(p.Errors[i].Message, "")
		}
	}
	return err
}

func (s *session) listCommand() *cobra.Command {
	var active bool
	cmd := &cobra.Command{
		Use: "list", Short: "List runs: those that go on, then those that are over, the latest first", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			runs, body, err := allRuns(cmd.Context(), c.Client, active)
			if err != nil {
				return err
			}
			if len(runs) == 0 {
				s.say("no runs; start one with: millrace run start -f SPEC")
			}
			return s.show(body, func() error { return s.write(runsTable(runs, s.now())) })
		},
	}
	cmd.Flags().BoolVar(&active, "active", false, "only those that go on")
	return cmd
}

func (s *session) showCommand() *cobra.Command {
	return s.onRun("show RUN", "Show a run: policy, buffer by state, engines, waits", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			v, a, err := c.run(ctx, run)
			if err != nil {
				return err
			}
			return s.show(a.Body, func() error { return s.showRun(v) })
		})
}

func (s *session) setCommand() *cobra.Command {
	cmd := s.onRun("set RUN KEY=VALUE...", "Change a running run", atLeast(2),
		func(ctx context.Context, c Client, run rollout.RunName, rest []string) error {
			change, err := spec.ParseChange(rest)
			if err != nil {
				return usage("%v", err)
			}
			return s.change(ctx, c, run, change, "changed")
		})
	cmd.ValidArgsFunction = s.completeSettings
	cmd.Long = "Change a running run. Keys have the names and the meaning that they have in the run " +
		"spec:\n\n" + settingsHelp() +
		"\nWhat is in flight goes on; groups launched from now on are as the change says."
	cmd.Example = "  millrace run set demo buffer.depth=4 buffer.max_staleness=6\n  millrace run set demo " +
		"buffer.max_bytes=2GiB group.zero_variance=drop"
	return cmd
}

func (s *session) pauseCommand(paused bool) *cobra.Command {
	use, short, done := "resume RUN", "Launch games again", "resumed"
	if paused {
		use, short, done = "pause RUN", "Launch no more games; what is in flight finishes and may be claimed", "paused"
	}
	return s.onRun(use, short, exactly(1), func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
		return s.change(ctx, c, run, spec.Pause(paused), done)
	})
}

func (s *session) change(ctx context.Context, c Client, run rollout.RunName, change spec.Change, done string) error {
	status, a, err := apiclient.Send[rollout.RunStatus](ctx, c.Client, http.MethodPatch, apiclient.RunPath(run), change)
	if err != nil {
		return err
	}
	s.say("run %s %s", run, done)
	return s.show(a.Body, func() error { return s.write(runsTable([]rollout.RunStatus{status}, s.now())) })
}

func (s *session) stopCommand() *cobra.Command {
	var reason string
	cmd := s.onRun("stop RUN", "Stop a run for good; its games in progress are let go", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			body := map[string]string{}
			if reason != "" {
				body["reason"] = reason
			}
			status, a, err := apiclient.Send[rollout.RunStatus](ctx, c.Client, http.MethodPost,
				apiclient.RunPath(run)+"/stop", body)
			if err != nil {
				return err
			}
			s.say("run %s is %s", run, status.State)
			return s.show(a.Body, func() error { return s.write(runsTable([]rollout.RunStatus{status}, s.now())) })
		})
	cmd.Flags().StringVar(&reason, "reason", "", "kept with the run")
	return cmd
}

func (s *session) waitsCommand() *cobra.Command {
	return s.onRun("waits RUN", "List everything that waits, with its owner", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			type list struct {
				Waits []wait `json:"waits"`
			}
			l, a, err := apiclient.Get[list](ctx, c.Client, apiclient.RunPath(run)+"/waits")
			if err != nil {
				return err
			}
			if len(l.Waits) == 0 {
				s.say("nothing waits")
			}
			return s.show(a.Body, func() error { return s.write(waitsTable(l.Waits, s.now())) })
		})
}

func (s *session) watchCommand() *cobra.Command {
	cmd := s.onRun("watch RUN", "Follow a run until it is over", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if s.format == "yaml" {
				return usage("watch writes a table, or a line of JSON per view: use -o json")
			}
			_, err := s.watch(ctx, c, run, s.Stdout)
			return err
		})
	cmd.Long = `Follow a run until it is over: a panel that is painted over on a terminal, elsewhere a line when something changes. With -o json
or ndjson every view, once a second, is a line of JSON, the same document as that of run show.`
	return withLines(cmd)
}
