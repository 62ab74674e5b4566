package cli

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
)

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
	setQuery(q, map[string]string{"sort": f.sort, "state": f.state, "code": f.code, "agent": f.agent, "after": f.after})
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
	cmd := s.onRun("games RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if f.limit < 0 {
				return Usage("--limit %d: use 0 for all, or more", f.limit)
			}
			if f.group < -1 || f.version < -1 {
				return Usage("--group and --version count from 0")
			}
			if name := strings.TrimPrefix(f.sort, "-"); name != "" && !slices.Contains(gamelist.Orders(), name) {
				return Usage("--sort %s: use one of %s, or one of them after -", f.sort, strings.Join(gamelist.Orders(), ", "))
			}
			if f.state != "" && !slices.Contains(gamelist.States(), gamelist.State(f.state)) {
				return Usage("--state %s: use playing, finished, failed or cancelled", f.state)
			}
			return s.listGames(ctx, c, run, f)
		})
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
	complete(cmd, "sort", gamelist.Orders())
	complete(cmd, "state", []string{"playing", "finished", "failed", "cancelled"})
	return cmd
}

// games is a page of the games, put together of as many calls as it takes.
func (c Client) games(ctx context.Context, run rollout.RunName, f gameFlags) (all gamelist.Page, err error) {
	for begun := false; !begun || all.Next != "" && (f.limit == 0 || len(all.Games) < f.limit); begun = true {
		want := gamesPerCall
		if f.limit > 0 {
			want = min(want, f.limit-len(all.Games))
		}
		p, _, err := apiclient.Get[gamelist.Page](ctx, c.Client, apiclient.RunPath(run)+"/games"+f.query(want))
		if err != nil {
			return all, err
		}
		all.Games, all.Total, all.Next = append(all.Games, p.Games...), p.Total, p.Next
		f.after = p.Next
	}
	return all, nil
}

func (s *session) listGames(ctx context.Context, c Client, run rollout.RunName, f gameFlags) error {
	all, err := c.games(ctx, run, f)
	if err != nil {
		return err
	}
	switch {
	case all.Total == 0:
		s.Say("no such games are heard of")
	case all.Next != "":
		s.Say("%d of %d games; the next ones: --after %s, all: --limit 0", len(all.Games), all.Total, all.Next)
	}
	return s.showValue(all, func() error { return s.write(gamesTable(all.Games)) })
}

func gamesTable(games []gamelist.Game) *table.Table {
	t := table.New(table.Left("GAME"), table.Left("STATE"), table.Left("GROUP"), table.Right("REWARD"),
		table.Right("POLICY"), table.Right("PHASES"), table.Right("SECONDS"), table.Right("TOKENS"), table.Right("ATT"),
		table.Left("FAILURE"))
	for i := range games {
		g := tablerow.RowOfGame(&games[i])
		t.Row(g.Name, g.State, g.Group, g.Reward, g.Policy, g.Phases, g.Seconds, g.Tokens, g.Attempts, g.Failure)
	}
	return t
}
