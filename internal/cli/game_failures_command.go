package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/alarm"
	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/table"
)

// failureKind is the attempts of a run that failed in one way, with what can be done about it.
type failureKind struct {
	rollout.FailedAttempts
	Engines map[string]int `json:"engines"` // games whose last failure names the engine
	Advice  string         `json:"advice"`
}

func (s *session) gameFailuresCommand() *cobra.Command {
	cmd := s.onRun("failures RUN", "List how a run's games fail: code, count, last error, engine, what to do", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			v, _, err := c.run(ctx, run)
			if err != nil {
				return err
			}
			failed, _, err := apiclient.Get[gamelist.Page](ctx, c.Client,
				fmt.Sprintf("%s/games?code=%s&sort=%s&limit=%d", apiclient.RunPath(run), gamelist.AnyCode, gamelist.ByEnd,
					gamesPerCall))
			if err != nil {
				return err
			}
			kinds := failureKinds(v, failed.Games)
			document, err := json.Marshal(map[string]any{"failures": kinds, "finished": v.Attempts.Finished,
				"failed": v.Attempts.Failed})
			if err != nil {
				return fmt.Errorf("write failures: %w", err)
			}
			if len(kinds) == 0 {
				s.say("no attempt at a game of %s has failed; %d games are finished", run, v.Attempts.Finished)
			}
			return s.show(document, func() error { return s.showFailures(run, kinds) })
		})
	cmd.Long = `List how attempts at a run's games have failed, the most frequent way first: all attempts since the run began. GIVEN UP is those that were
the last of their games, IN A ROW those since an attempt last succeeded. ENGINES is which ones the latest failed games name, with how many
games each.

` + ExitCodesFor(ExitOK, ExitError, ExitUsage, ExitNotFound, ExitAuth, ExitUnavailable)
	cmd.Example = "  millrace game failures demo\n" +
		"  millrace game failures demo -o json | jq '.failures[] | {code, tries, advice}'"
	return cmd
}

// namedEngine is an engine as the dispatcher names it in a failure.
var namedEngine = regexp.MustCompile(`\bengine ([^\s:]+): `)

func failureKinds(v runView, failed []gamelist.Game) []failureKind {
	kinds := make([]failureKind, 0, len(v.Attempts.ByCode))
	for _, f := range v.Attempts.ByCode {
		kind := failureKind{f, map[string]int{}, alarm.Advice(f.Code, v.Spec)}
		for _, g := range failed {
			if g.Code != f.Code {
				continue
			}
			if found := namedEngine.FindStringSubmatch(g.Failure); found != nil {
				kind.Engines[found[1]]++
			}
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// showFailures is the counts as a table, and then each code with its last error and what to do.
func (s *session) showFailures(run rollout.RunName, kinds []failureKind) error {
	if len(kinds) == 0 {
		return nil
	}
	t := table.New(table.Left("CODE"), table.Right("ATTEMPTS"), table.Right("GIVEN UP"), table.Right("IN A ROW"),
		table.Right("LAST"), table.Left("GAME"), table.Left("ENGINES"))
	for _, k := range kinds {
		t.Row(string(k.Code), count(k.Attempts), count(k.GivenUp), count(k.InRow), ago(k.LastAt, s.now()),
			inRun(run, k.LastGame), failingEngines(k.Engines))
	}
	if err := s.write(t); err != nil {
		return err
	}
	for _, k := range kinds {
		fmt.Fprintln(s.Stdout)
		s.paragraph(fmt.Sprintf("%-10s", string(k.Code))+" ", k.Last)
		advice := "see: millrace run events " + string(run) + " --code " + string(k.Code)
		if k.Advice != "" {
			advice = k.Advice + "; " + advice
		}
		s.paragraph("  to do    ", advice)
	}
	return nil
}

// failingEngines is engines with how many failures each, the most first.
func failingEngines(engines map[string]int) string {
	names := slices.SortedFunc(maps.Keys(engines), func(a, b string) int {
		if by := engines[b] - engines[a]; by != 0 {
			return by
		}
		return strings.Compare(a, b)
	})
	const most = 3
	var parts []string
	for _, name := range names[:min(most, len(names))] {
		parts = append(parts, fmt.Sprintf("%s %d", name, engines[name]))
	}
	if more := len(names) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
