package cli

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
)

func (s *session) logsCommand() *cobra.Command {
	var follow bool
	var kinds []string
	var since, leastName, group string
	var step int64
	var last int
	cmd := s.onRun("logs RUN", "Show what happened to a run as lines of a log, or follow it", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			least, err := parseLevel(leastName)
			if err != nil {
				return err
			}
			if last < 0 || step < -1 {
				return usage("--last and --step count from 0")
			}
			query := url.Values{"limit": {strconv.Itoa(eventsPage)}}
			s.doubtKinds(kinds)
			for name, value := range map[string]string{"kind": strings.Join(kinds, ","), "since": since,
				"game": inRun(run, group)} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if len(kinds) == 0 {
				query.Set("facts", "true")
			}
			filter := logFilter{least, step}
			r := &reader{session: s, client: c, path: apiclient.RunPath(run) + "/events", query: query,
				wants: filter.wants, line: logLine, headed: true}
			if err := r.latest(ctx, last); err != nil {
				return err
			}
			if follow {
				return r.follow(ctx)
			}
			return nil
		})
	cmd.Long = `Show what happened to a run, oldest first, a line each: time, level, kind, and what it was. Errors are games that were given up, alarms,
rejected versions and a run that failed; warnings are attempts that failed, dropped groups, engines that were lost, refused calls. A follower
waits for a server that is restarted, and goes on where it was.

With -o ndjson, and with --follow -o json, every event is a line of JSON with its id, kind and data.

` + ExitCodesFor(ExitOK, ExitError, ExitUsage, ExitNotFound, ExitAuth, ExitUnavailable, ExitInterrupted)
	cmd.Example = `  millrace run logs demo -f
  millrace run logs demo --level warn --since 1h
  millrace run logs demo --group 47 --last 0`
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on with what happens, until Ctrl-C")
	f.StringSliceVar(&kinds, "kind", nil, "only these kinds, such as rollout_error,group_dropped")
	f.StringVar(&leastName, "level", "info", "only events of this level and above: info, warn, error")
	f.StringVar(&group, "group", "", "only events of a group or a game: GROUP or GROUP/EPISODE")
	f.Int64Var(&step, "step", -1, "only events of this step: its batch, its record, the waits for it")
	f.StringVar(&since, "since", "", "only events since a time (2026-01-02T15:04:05Z) or for so long (10m)")
	f.IntVar(&last, "last", 100, "of what has happened already, the last so many; 0: all that is kept")
	completeKinds(cmd)
	_ = cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(levelNames, cobra.ShellCompDirectiveNoFileComp))
	return withLines(cmd)
}
