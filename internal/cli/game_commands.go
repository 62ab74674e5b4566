package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/table"
)

// AddGameCommands adds to the game command what asks a server about a run's games.
func AddGameCommands(parent *cobra.Command, d Deps) {
	for _, make := range []func(*session) *cobra.Command{(*session).listGamesCommand, (*session).gameFailuresCommand} {
		s := &session{Deps: d}
		cmd := make(s)
		s.flags(cmd)
		parent.AddCommand(cmd)
	}
}

// gamesPerCall is how many games one call brings.
const gamesPerCall = 500

// gameFlags says which games are listed.
type gameFlags struct {
	sort, state, code, agent, after string
	group, version                  int64
	limit                           int
}

func (f gameFlags) query(limit int) string {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{"sort": f.sort, "state": f.state, "code": f.code, "agent": f.agent,
		"after": f.after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.group >= 0 {
		q.Set("group", strconv.FormatInt(f.group, 10))
	}
	if f.version >= 0 {
		q.Set("version", strconv.FormatInt(f.version, 10))
	}
	return "?" + q.Encode()
}

func (s *session) listGamesCommand() *cobra.Command {
	var f gameFlags
	cmd := s.onRun("list RUN", "List a run's games: by reward, length, failure, version or group", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if f.limit < 0 {
				return usage("--limit %d: use 0 for all, or more", f.limit)
			}
			if f.group < -1 || f.version < -1 {
				return usage("--group and --version count from 0")
			}
			if name := strings.TrimPrefix(f.sort, "-"); name != "" && !slices.Contains(gamelist.Orders(), name) {
				return usage("--sort %s: use one of %s, or one of them after -", f.sort, strings.Join(gamelist.Orders(), ", "))
			}
			if f.state != "" && !slices.Contains(gamelist.States(), gamelist.State(f.state)) {
				return usage("--state %s: use playing, finished, failed or cancelled", f.state)
			}
			return s.listGames(ctx, c, run, f)
		})
	cmd.Long = `List the games of a run: those in play, and of those that have ended the latest 20,000. The newest group comes first, or with --sort the
highest reward, the longest game and so on; a - before the order turns it round.

REWARD is the mean of the game's agents, or of the one that --agent names. POLICY is the versions that sampled it. GROUP is where its group
is; a game can be shown while that is not in brackets. ATT is the attempts that it took, FAILURE how the last one failed, if one did.

` + ExitCodesFor(ExitOK, ExitError, ExitUsage, ExitNotFound, ExitAuth, ExitUnavailable)
	cmd.Example = `  millrace game list demo --sort -reward --limit 10
  millrace game list demo --code any
  millrace game list demo --version 12 --agent FRANCE --sort reward -o json | jq '.games[0].rewards'`
	fl := cmd.Flags()
	fl.StringVar(&f.sort, "sort", gamelist.ByGroup,
		strings.Join(gamelist.Orders(), ", ")+"; with - before it the other way round")
	fl.StringVar(&f.state, "state", "", "only games that are playing, finished, failed or cancelled")
	fl.Int64Var(&f.group, "group", -1, "only games of this group")
	fl.Int64Var(&f.version, "version", -1, "only games that this policy version sampled any turn of")
	fl.StringVar(&f.code, "code", "", "only games whose last failed attempt had this code; any: that had one")
	fl.StringVar(&f.agent, "agent", "", "whose reward is meant, such as FRANCE; without it the mean of all")
	fl.StringVar(&f.after, "after", "", "the games after this one, GROUP/EPISODE: the next page")
	fl.IntVar(&f.limit, "limit", 40, "so many; 0: all")
	_ = cmd.RegisterFlagCompletionFunc("sort",
		cobra.FixedCompletions(gamelist.Orders(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("state",
		cobra.FixedCompletions([]string{"playing", "finished", "failed", "cancelled"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// listGames shows a page of the games, put together of as many calls as it takes.
func (s *session) listGames(ctx context.Context, c Client, run rollout.RunName, f gameFlags) error {
	var all gamelist.Page
	for begun := false; !begun || all.Next != "" && (f.limit == 0 || len(all.Games) < f.limit); begun = true {
		want := gamesPerCall
		if f.limit > 0 {
			want = min(want, f.limit-len(all.Games))
		}
		p, _, err := apiclient.Get[gamelist.Page](ctx, c.Client, apiclient.RunPath(run)+"/games"+f.query(want))
		if err != nil {
			return err
		}
		all.Games, all.Total, all.Next = append(all.Games, p.Games...), p.Total, p.Next
		f.after = p.Next
	}
	document, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("write games: %w", err)
	}
	switch {
	case all.Total == 0:
		s.say("no such games are heard of")
	case all.Next != "":
		s.say("%d of %d games; the next ones: --after %s, all: --limit 0", len(all.Games), all.Total, all.Next)
	}
	return s.show(document, func() error { return s.write(gamesTable(all.Games)) })
}

func gamesTable(games []gamelist.Game) *table.Table {
	t := table.New(table.Left("GAME"), table.Left("STATE"), table.Left("GROUP"), table.Right("REWARD"),
		table.Right("POLICY"), table.Right("PHASES"), table.Right("SECONDS"), table.Right("TOKENS"), table.Right("ATT"),
		table.Left("FAILURE"))
	for _, g := range games {
		group := g.GroupState
		if !g.Kept {
			group = "(" + group + ")"
		}
		failure := string(g.Code)
		if g.Failure != "" {
			failure += ": " + strings.TrimPrefix(g.Failure, failure+": ")
		}
		t.Row(fmt.Sprintf("%d/%d", g.Group, g.Sample), string(g.State), group, rewardText(g.Reward), versionsText(g),
			count(int64(g.Phases)), orDash(g.Seconds, sec), count(g.Tokens), count(int64(g.Attempts)), failure)
	}
	return t
}

func rewardText(reward *float64) string {
	if reward == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *reward)
}

func orDash(v float64, text func(float64) string) string {
	if v == 0 {
		return "-"
	}
	return text(v)
}

// versionsText is the policy versions that sampled a game.
func versionsText(g gamelist.Game) string {
	switch {
	case g.MinVersion == nil || g.MaxVersion == nil:
		return "-"
	case *g.MinVersion == *g.MaxVersion:
		return fmt.Sprintf("v%d", *g.MinVersion)
	}
	return fmt.Sprintf("v%d-v%d", *g.MinVersion, *g.MaxVersion)
}
