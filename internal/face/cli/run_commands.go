package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
)

func newRunCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	cmd := &cobra.Command{Use: "run"}
	s.flags(cmd)
	Group(cmd, "Start and change:", s.startCommand(), s.setCommand(), s.pauseCommand(true), s.pauseCommand(false),
		s.stopCommand(), s.cloneCommand(), s.rewindCommand(), s.playCommand())
	Group(cmd, "Look at:", s.listCommand(), s.showCommand(), s.curveCommand(), s.ratingsCommand(), s.bestCommand(),
		s.stepsCommand(), s.watchCommand(),
		s.compareCommand(), s.listGamesCommand(), s.showGameCommand())
	Group(cmd, "Keep and delete:", s.recordCommand(), s.exportCommand(), s.archiveCommand(), s.deleteCommand())
	return cmd
}

// onRun makes a command whose first argument is a run.
func (s *session) onRun(use string, args cobra.PositionalArgs,
	do func(ctx context.Context, c Client, run rollout.RunName, rest []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Args: args, ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, run, err := s.clientOf(args[0])
			if err != nil {
				return err
			}
			return do(cmd.Context(), c, run, args[1:])
		},
	}
}

// clientOf is the server's client, for a run that the command line names.
func (s *session) clientOf(name string) (Client, rollout.RunName, error) {
	run := rollout.RunName(name)
	if err := run.ValidateID(); err != nil {
		return Client{}, run, Usage("%v", err)
	}
	c, err := s.client()
	return c, run, err
}

func (s *session) startCommand() *cobra.Command {
	var file string
	var watch bool
	cmd := &cobra.Command{
		Use:  "start -f FILE",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := s.readSpec(file)
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
				s.Say("run %s started; follow it with: millrace run watch %s", name, name)
				if status.Spec.Group.Samples == 1 {
					s.Say("note: group.samples is 1: the rewards of one game do not vary within its group, and every advantage is 0")
				}
				s.noteModel(cmd.Context(), c, status.Spec.Model)
			} else if status.State.Over() {
				return fmt.Errorf("run %s is %s already and was not started again; start its spec under another name with: "+
					"millrace run clone %s NEW, or delete it first with: millrace run delete %s", name, status.State, name, name)
			} else {
				s.Say("run %s was there already, with the same spec; it is %s at step %d", name, status.State, status.NextStep)
			}
			if watch {
				_, err := s.watch(cmd.Context(), c, name, patience)
				return err
			}
			return s.showStatus(a, status)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the spec; - reads standard input")
	cmd.Flags().BoolVar(&watch, "watch", false, "watch the run until it is over")
	return cmd
}

// noteModel says that no engine serves a model, where engines have said what they serve.
func (s *session) noteModel(ctx context.Context, c Client, model string) {
	engines, _, err := c.Engines(ctx)
	var served []string
	for _, e := range engines {
		served = append(served, e.Models...)
	}
	if err == nil && len(served) > 0 && !slices.Contains(served, model) {
		s.Say("note: no engine serves %s: millrace engine list", model)
	}
}

func (s *session) listCommand() *cobra.Command {
	var active bool
	cmd := s.on("list", func(ctx context.Context, c Client) error {
		runs, document, err := c.runs(ctx, active)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			s.Say("no runs; start one with: millrace run start -f SPEC")
		}
		return s.show(document, func() error {
			found, _, _ := apiclient.Get[api.DeploymentStatus](ctx, c.Client, "/v1/status") // the list is worth something alone
			return s.write(runsTable(runs, found.Problems, s.now()))
		})
	})
	cmd.Flags().BoolVar(&active, "active", false, "only those that go on")
	return cmd
}

func (s *session) showCommand() *cobra.Command {
	return s.onRun("show RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			v, a, err := c.run(ctx, run)
			if err != nil {
				return err
			}
			return s.show(a.Body, func() error { return s.showRun(&v) })
		})
}

func (s *session) setCommand() *cobra.Command {
	cmd := s.onRun("set RUN KEY=VALUE...", cobra.MinimumNArgs(2),
		func(ctx context.Context, c Client, run rollout.RunName, rest []string) error {
			change, err := spec.ParseChange(rest)
			if err != nil {
				return Usage("%v", err)
			}
			return s.change(ctx, c, run, change, "changed")
		})
	cmd.ValidArgsFunction, cmd.Long = s.completeSettings, settingsHelp()
	return cmd
}

func (s *session) pauseCommand(paused bool) *cobra.Command {
	use, done := "resume RUN", "resumed"
	if paused {
		use, done = "pause RUN", "paused"
	}
	return s.onRun(use, cobra.ExactArgs(1), func(ctx context.Context, c Client, run rollout.RunName,
		_ []string) error {
		return s.change(ctx, c, run, spec.Pause(paused), done)
	})
}

func (s *session) change(ctx context.Context, c Client, run rollout.RunName, change spec.Change, done string) error {
	status, a, err := c.change(ctx, run, http.MethodPatch, "", change)
	if err != nil {
		return err
	}
	s.Say("run %s %s", run, done)
	return s.showStatus(a, status)
}

// showStatus shows one run as a list of one.
func (s *session) showStatus(a apiclient.Answer, status runstatus.RunStatus) error {
	return s.show(a.Body, func() error { return s.write(runsTable([]runstatus.RunStatus{status}, nil, s.now())) })
}

func (s *session) stopCommand() *cobra.Command {
	var reason string
	cmd := s.onRun("stop RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			body := map[string]string{}
			if reason != "" {
				body["reason"] = reason
			}
			status, a, err := c.change(ctx, run, http.MethodPost, "/stop", body)
			if err != nil {
				return err
			}
			s.Say("run %s is %s", run, status.State)
			return s.showStatus(a, status)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "kept with the run")
	return cmd
}

func (s *session) watchCommand() *cobra.Command {
	cmd := s.onRun("watch RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if s.format == "yaml" {
				return Usage("watch writes a table, or a line of JSON per view: use -o json")
			}
			_, err := s.watch(ctx, c, run, patience)
			return err
		})
	return withLines(cmd)
}
