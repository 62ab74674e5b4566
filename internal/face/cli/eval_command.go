package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/control/evaluation"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

func newEvalCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	var asked evaluation.Asked
	version, detach := int64(-1), false
	cmd := s.onRun("eval RUN [--version N --against WHOM]", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			path := apiclient.RunPath(run) + "/evaluations"
			if version < 0 {
				if asked.Against != "" {
					return Usage("--against %s: say which version plays, with --version", asked.Against)
				}
				return s.showEvaluations(ctx, c, path, "")
			}
			if asked.Games < 1 || asked.Games > evaluation.MostGames {
				return Usage("--games %d: from 1 to %d", asked.Games, evaluation.MostGames)
			}
			if !(asked.HalfWidth >= 0) {
				return Usage("--half-width %v: a number above 0, such as 0.03", asked.HalfWidth)
			}
			asked.Version = rollout.PolicyVersion(version)
			status, _, err := apiclient.Send[runstatus.RunStatus](ctx, c.Client, http.MethodPost, path, asked)
			if err != nil {
				return err
			}
			name := status.Spec.Name.Plain()
			s.Say("evaluation %s is %s; see it with: millrace eval %s", name, status.State, run)
			if detach {
				return nil
			}
			if err := s.awaitEnd(ctx, c, name); err != nil {
				return err
			}
			return s.showEvaluations(ctx, c, path, name)
		})
	flags := cmd.Flags()
	flags.Int64Var(&version, "version", -1, "the version that plays; 0: what the run began with; none: show what is known")
	flags.StringVar(&asked.Against, "against", "", "who plays the others: a bot, v3 for version 3, or policy:NAME")
	flags.StringVar(&asked.URL, "url", "", "of policy:NAME that the run lacks: the base of its OpenAI-compatible chat API")
	flags.StringVar(&asked.Model, "model", "", "what that API calls the model")
	flags.IntVar(&asked.MaxTokens, "max-tokens", 0, "length of its answers (default that of the run's sampling)")
	flags.StringVar(&asked.Seat, "seat", "", "the agent that the version plays (default those that learn)")
	flags.IntVar(&asked.Games, "games", 256, "at most so many, rounded up to eight equal parts")
	flags.Float64Var(&asked.HalfWidth, "half-width", 0, "stop as soon as the mean reward is known to so much")
	flags.StringVar(&asked.Path, "path", "", "the version's adapter, where the run does not know it any more")
	flags.BoolVar(&detach, "detach", false, "do not wait for the end")
	s.flags(cmd)
	return cmd
}

// awaitEnd waits until a run is over, and tells what needs somebody meanwhile. That it did not complete is an error,
// with the reason.
func (s *session) awaitEnd(ctx context.Context, c Client, run rollout.RunName) error {
	for said := runstatus.AlarmCode(""); ; {
		status, _, err := apiclient.Get[api.RunView](ctx, c.Client, apiclient.RunPath(run))
		if err != nil {
			return err
		}
		if len(status.Alarms) > 0 && status.Alarms[0].Code != said {
			said = status.Alarms[0].Code
			s.Say("%s: %s; %s", run, status.Alarms[0].Text, status.Alarms[0].Advice)
		}
		if status.State.Over() {
			if status.State != runstatus.RunCompleted {
				return fmt.Errorf("evaluation %s is %s: %s", run, status.State, status.Reason)
			}
			return nil
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// showEvaluations shows those of a run, or one of them.
func (s *session) showEvaluations(ctx context.Context, c Client, path string, only rollout.RunName) error {
	list, a, err := apiclient.Get[api.EvaluationList](ctx, c.Client, path)
	if err != nil {
		return err
	}
	for _, note := range list.Notes {
		s.Say("note: %s", note)
	}
	for _, r := range list.Evaluations {
		if r.State == runstatus.RunFailed || r.State == runstatus.RunLost {
			s.Say("note: %s is %s: %.300s", r.Run, r.State, r.Reason)
		}
	}
	document := a.Body
	if only != "" {
		for _, r := range list.Evaluations {
			if r.Run == only {
				list.Evaluations = []evaluation.Result{r}
			}
		}
		if document, err = json.Marshal(list); err != nil {
			return err
		}
	}
	if len(list.Evaluations) == 0 {
		s.Say("no version was evaluated yet; do so with --version and --against")
	}
	return s.show(document, func() error { return s.write(evaluationTable(list.Evaluations)) })
}

func evaluationTable(all []evaluation.Result) *table.Table {
	t := table.New(table.Right("VERSION"), table.Left("AGAINST"), table.Right("GAMES"), table.Right("SCORE ± 95 %"),
		table.Right("THAN BEFORE"), table.Left(""), table.Left("STATE"), table.Left("RUN"))
	for _, r := range all {
		row := tablerow.RowOfEvaluation(r)
		t.Row(row.Version, row.Against, row.Games, row.Score, row.Difference, row.Verdict, row.State, row.Run)
	}
	return t
}

// bestCommand tells which version reached most.
func (s *session) bestCommand() *cobra.Command {
	var against, seat string
	cmd := s.onRun("best RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			list, _, err := apiclient.Get[api.EvaluationList](ctx, c.Client, apiclient.RunPath(run)+"/evaluations")
			if err != nil {
				return err
			}
			ranking := evaluation.Ranking(list.Evaluations, against, seat)
			if len(ranking) == 0 {
				return fmt.Errorf("no version of run %s has finished an evaluation%s%s; do so with: millrace eval %s "+
					"--version N --against WHOM", run, textOf(" against ", against), textOf(" as ", seat), run)
			}
			best := ranking[0]
			if alike := evaluation.NotToldFrom(ranking); len(alike) > 0 {
				s.Say("note: not told from %s: their intervals meet; more games can tell", versionsText(alike))
			}
			document, err := json.Marshal(best)
			if err != nil {
				return err
			}
			return s.show(document, func() error {
				row := tablerow.RowOfEvaluation(best)
				t := table.New(table.Right("VERSION"), table.Left("AGAINST"), table.Right("GAMES"),
					table.Right("SCORE ± 95 %"), table.Left("ADAPTER"))
				t.Row(row.Version, row.Against, row.Games, row.Score, cmp.Or(best.Path, "the base model"))
				return s.write(t)
			})
		})
	cmd.Flags().StringVar(&against, "against", "", "the opponent that counts (default that of the most versions)")
	cmd.Flags().StringVar(&seat, "seat", "", "the agent that the versions played (default that of the most versions)")
	return cmd
}

// textOf is a word and what it is of, if it is of anything.
func textOf(word, of string) string {
	if of == "" {
		return ""
	}
	return word + of
}

// mostNamed is how many versions a sentence names.
const mostNamed = 6

func versionsText(versions []rollout.PolicyVersion) string {
	var names []string
	for _, v := range versions[:min(mostNamed, len(versions))] {
		names = append(names, v.Player())
	}
	if more := len(versions) - mostNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
