package cli

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/diagnosis/runcompare"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// comparedGames bounds the games that a run's rewards are taken from: the latest ones.
const comparedGames = 2_000

func (s *session) compareCommand() *cobra.Command {
	var last int
	var from int64
	var price float64
	cmd := s.onRun("compare A B", cobra.ExactArgs(2),
		func(ctx context.Context, c Client, a rollout.RunName, rest []string) error {
			b := rollout.RunName(rest[0])
			if err := b.ValidateID(); err != nil {
				return Usage("%v", err)
			}
			if last < 0 || from < 0 || price < 0 {
				return Usage("--last, --from and --price are 0 or more")
			}
			var sides [2]runcompare.Side
			for i, run := range []rollout.RunName{a, b} {
				side, err := c.side(ctx, run, rollout.Step(from), last)
				if err != nil {
					return err
				}
				side.PerEngineHour = price
				sides[i] = side
			}
			compared := runcompare.Compare(sides[0], sides[1])
			return s.showValue(compared, func() error { return s.showComparison(string(a), string(b), compared) })
		})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			args = nil
		}
		return s.completeRuns(cmd, args, word)
	}
	f := cmd.Flags()
	f.IntVar(&last, "last", 0, "only so many of each run's latest steps; 0: all")
	f.Int64Var(&from, "from", 1, "only steps from this one on: step 0 has a buffer that was filled before")
	f.Float64Var(&price, "price", 0, "what an engine costs an hour: compares costs, too")
	return cmd
}

// side reads what a run is compared by.
func (c Client) side(ctx context.Context, run rollout.RunName, from rollout.Step, last int) (runcompare.Side, error) {
	v, _, err := c.run(ctx, run)
	if err != nil {
		return runcompare.Side{}, err
	}
	side := runcompare.Side{Status: v.RunStatus, Attempts: v.Attempts}
	steps, err := c.steps(ctx, run, from)
	if err != nil {
		return side, err
	}
	side.Steps = slices.DeleteFunc(steps, func(r steprecord.StepRecord) bool { return !r.Done || r.LostRecord })
	if last > 0 {
		side.Steps = side.Steps[max(0, len(side.Steps)-last):]
	}
	f := gameFlags{sort: gamelist.ByEnd, state: string(gamelist.Finished), group: -1, version: -1, limit: comparedGames}
	games, err := c.games(ctx, run, f)
	if err != nil {
		return side, err
	}
	side.Games = games.Games
	slices.Reverse(side.Games)
	report, _, err := c.diagnosis(ctx, run)
	switch ExitCode(err) {
	case ExitOK:
		side.Verdict = reporttext.Headline(report)
	case ExitUnavailable, ExitAuth, ExitInterrupted:
		return side, err
	default:
		side.Verdict = "none: " + err.Error()
	}
	return side, nil
}

// wideComparison is a terminal on which everything has room.
const wideComparison = 110

func (s *session) showComparison(a, b string, c runcompare.Comparison) error {
	for _, note := range c.Notes {
		s.paragraph("NOTE     ", note)
	}
	if len(c.Notes) > 0 {
		fmt.Fprintln(s.Stdout)
	}
	columns := []table.Column{table.Left(""), table.Right(termtext.Cut(a, 24)), table.Right(termtext.Cut(b, 24)),
		table.Right("DIFFERENCE"), table.Left("BETTER"), table.Right("CHANGE")}
	plusMinus := " ± "
	if width := s.width(); width > 0 && width < wideComparison { // the names need the room
		columns, plusMinus = columns[:5], "±"
	}
	t := table.New(columns...)
	for _, m := range c.Measures {
		name, change, better := m.Name, "", ""
		if m.Unit != "" {
			name += ", " + m.Unit
		}
		if m.Ratio != 0 && math.Abs(m.Ratio) < 100 {
			change = fmt.Sprintf("%+.0f %%", 100*m.Ratio)
		}
		switch {
		case m.Better != "":
			better = map[string]string{"a": a, "b": b}[m.Better]
		case !m.Diff.Known():
			better = "-"
		case !m.Clear:
			better = "?"
		}
		t.Row(name, intervalText(m.A, plusMinus), intervalText(m.B, plusMinus), signedInterval(m.Diff, plusMinus), better,
			change)
	}
	if err := s.write(t); err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "\nmeans with 95 %% intervals, of %d and %d steps; ? may be chance\n\n",
		c.Steps[0], c.Steps[1])
	for i, run := range []string{a, b} {
		s.paragraph("verdict  ", run+": "+c.Verdicts[i])
	}
	if len(c.Settings) == 0 {
		return nil
	}
	fmt.Fprintln(s.Stdout)
	settings := table.New(table.Left("SPEC"), table.Left(a), table.Left(b))
	for _, one := range c.Settings {
		settings.Row(one.Key, one.A, one.B)
	}
	return s.write(settings)
}

func intervalText(i stat.Interval, plusMinus string) string {
	if !i.Known() {
		return units.Number(i.Mean)
	}
	return tablerow.Fine(i.Mean, i.Half) + plusMinus + tablerow.Fine(i.Half, i.Half)
}

func signedInterval(i stat.Interval, plusMinus string) string {
	text := intervalText(i, plusMinus)
	if i.Mean > 0 {
		return "+" + text
	}
	return text
}
