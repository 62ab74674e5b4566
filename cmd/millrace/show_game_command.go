package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/diplomacy"
	"github.com/millrace/millrace/internal/diplomacyview"
	"github.com/millrace/millrace/internal/rollout"
)

// showGame is what game show was asked for.
type showGame struct {
	diplomacyview.ShowOptions
	dir, server string
	turn        int
	turns, diff bool
}

func newShowGameCommand(env environment) *cobra.Command {
	var o showGame
	cmd := &cobra.Command{
		Use:   "show RUN [GROUP/EPISODE] | FILE.json",
		Short: "Show a game phase by phase, its turns with their tokens, or where two games part",
		Long: `Show one game: of a run, the newest or GROUP/EPISODE, finished or in progress; or a saved game in the format of the python diplomacy
package. Orders, results and centres stand under each phase; with --svg the maps are drawn too, one file per phase. A game whose environment
is not Diplomacy is shown as its turns.

With --turns its turns are listed, and with --turn N one of them is shown: prompt, completion, and the tokens with their logprobs. The prompt
is kept as tokens; an engine's tokenizer writes its text. With --diff two games of a group are compared: the first phase in which they part,
the orders side by side, and the rewards.

` + cli.ExitCodesFor(cli.ExitOK, cli.ExitError, cli.ExitUsage, cli.ExitNotFound, cli.ExitAuth, cli.ExitUnavailable),
		Example: `  millrace game show diplomacy-qwen7b
  millrace game show diplomacy-qwen7b 0/3 --phase F1902M --svg maps/
  millrace game show diplomacy-qwen7b 0/3 --turn 12
  millrace game show diplomacy-qwen7b --diff 0/3 0/5`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := diplomacyview.CheckFormat(o.Format); err != nil {
				return usage("%v", err)
			}
			o.Color, o.Width = colourful(env.stdout), min(cli.Width(env.stdout, os.Getenv), widestGame)
			if o.diff {
				return env.diffGames(cmd.Context(), o, args)
			}
			return env.showGame(cmd.Context(), o, cmd.Flags().Changed("turn"), args)
		},
	}
	cmd.ValidArgsFunction = cli.CompleteRuns(env.clientDeps())
	f := cmd.Flags()
	f.StringVarP(&o.Format, "output", "o", diplomacyview.Table,
		"table or json: the saved game, the turns or the turn itself")
	f.StringVar(&o.Phase, "phase", "", "only this phase, such as F1901M")
	f.BoolVar(&o.turns, "turns", false, "list the game's turns and its agents' rewards")
	f.IntVar(&o.turn, "turn", 0, "show this turn, numbered from 0: prompt, completion, tokens and logprobs")
	f.BoolVar(&o.diff, "diff", false, "compare two games of a group: RUN A B, or RUN/GROUP/EPISODE twice")
	f.StringVar(&o.dir, "svg", "", "draw a map per phase into this folder")
	f.StringVar(&o.server, "server", cli.ServerOf(os.Getenv), "URL of the API server ($MILLRACE_SERVER)")
	return cmd
}

// widestGame is where the lines of a game end however wide the terminal is.
const widestGame = 160

// gameNames reads the games that a command line names: RUN/GROUP/EPISODE each, or a RUN and then GROUP/EPISODE. A run
// alone has none.
func gameNames(args []string) (run rollout.RunName, games []rollout.EpisodeRef, err error) {
	if name := rollout.RunName(args[0]); name.ValidateID() == nil {
		run, args = name, args[1:]
	}
	for _, arg := range args {
		if run != "" && !strings.HasPrefix(arg, string(run)+"/") {
			arg = string(run) + "/" + arg
		}
		ref, err := rollout.ParseEpisodeRef(arg)
		if err != nil {
			return "", nil, usage("%v", err)
		}
		games = append(games, ref)
	}
	return run, games, nil
}

func (e environment) showGame(ctx context.Context, o showGame, oneTurn bool, args []string) error {
	if fromFile := strings.HasSuffix(args[0], ".json") || strings.HasSuffix(args[0], ".jsonl"); fromFile {
		if len(args) > 1 || o.turns || oneTurn {
			return usage("%s is a file: it is shown alone, and has no turns", args[0])
		}
		game, err := e.gameInFile(args[0])
		if err != nil {
			return err
		}
		return e.showPhases(o, game)
	}
	run, games, err := gameNames(args)
	if err != nil {
		return err
	}
	if len(games) > 1 {
		return usage("one game is shown at a time; two are compared with --diff")
	}
	client, err := e.client(o.server)
	if err != nil {
		return err
	}
	var data []byte
	var ref rollout.EpisodeRef
	if len(games) == 1 {
		ref = games[0]
	} else if ref, data, err = client.LatestGame(ctx, run); err != nil {
		return err
	} else {
		e.say("game %s", ref)
	}
	switch {
	case oneTurn:
		return e.showTurn(ctx, client, ref, o)
	case o.turns:
		return e.showTurns(ctx, client, ref, o)
	}
	if data == nil {
		if data, err = client.Game(ctx, ref); err != nil {
			return err
		}
	}
	var game diplomacy.SavedGame
	if err := json.Unmarshal(data, &game); err != nil || len(game.Phases) == 0 {
		if o.Format == diplomacyview.JSON {
			_, err := e.stdout.Write(append(cli.HarmlessJSON(data), '\n'))
			return err
		}
		if o.Phase != "" || o.dir != "" {
			return usage("%s is no game of Diplomacy: it has no phases and no maps; see its turns with --turns", ref)
		}
		return e.showTurns(ctx, client, ref, o)
	}
	return e.showPhases(o, &game)
}

func (e environment) showPhases(o showGame, game *diplomacy.SavedGame) error {
	if err := e.drawMaps(o.dir, o.Phase, game); err != nil {
		return err
	}
	return diplomacyview.Show(e.stdout, game, o.ShowOptions)
}

// gameInFile reads a saved game.
func (e environment) gameInFile(name string) (*diplomacy.SavedGame, error) {
	if strings.HasSuffix(name, ".jsonl") {
		return nil, usage("%s: a file of recorded games is for millrace game replay; show takes one saved game", name)
	}
	data, err := e.readFile(name)
	if err != nil {
		return nil, usage("%v", err)
	}
	var game diplomacy.SavedGame
	if err := json.Unmarshal(data, &game); err != nil {
		return nil, fmt.Errorf("game %s: %w", name, err)
	}
	return &game, nil
}

func (e environment) showTurns(ctx context.Context, c cli.Client, ref rollout.EpisodeRef, o showGame) error {
	turns, a, err := c.Turns(ctx, ref)
	if err != nil {
		return err
	}
	if o.Format == diplomacyview.JSON {
		_, err := e.stdout.Write(append(cli.HarmlessJSON(a.Body), '\n'))
		return err
	}
	if len(turns.Turns) > 0 {
		e.say("one turn with its tokens: millrace game show %s %d/%d --turn 0", ref.Run, ref.Seq, ref.Sample)
	}
	return cli.WriteTurns(e.stdout, turns, cli.Width(e.stdout, os.Getenv))
}

func (e environment) showTurn(ctx context.Context, c cli.Client, ref rollout.EpisodeRef, o showGame) error {
	if o.turn < 0 {
		return usage("--turn %d: turns are numbered from 0", o.turn)
	}
	turn, a, err := c.Turn(ctx, ref, o.turn)
	if err != nil {
		return err
	}
	if o.Format == diplomacyview.JSON {
		_, err := e.stdout.Write(append(cli.HarmlessJSON(a.Body), '\n'))
		return err
	}
	return cli.WriteTurn(e.stdout, turn, cli.Width(e.stdout, os.Getenv))
}

// diffGames compares two games of a group.
func (e environment) diffGames(ctx context.Context, o showGame, args []string) error {
	_, games, err := gameNames(args)
	if err != nil {
		return err
	}
	if len(games) != 2 {
		return usage("--diff compares two games, RUN A B such as demo 0/3 0/5; these are %d", len(games))
	}
	a, b := games[0], games[1]
	if a.GroupRef != b.GroupRef {
		e.say("note: %s and %s are of different groups and began differently: rewards are compared within a group", a, b)
	}
	client, err := e.client(o.server)
	if err != nil {
		return err
	}
	var played [2]diplomacyview.Played
	for i, ref := range games {
		if played[i], err = readPlayed(ctx, client, ref); err != nil {
			return err
		}
	}
	return diplomacyview.ShowDiff(e.stdout, played[0], played[1], o.ShowOptions)
}

// readPlayed reads what two games are compared by: turns and rewards, and the phases of a game that has them.
func readPlayed(ctx context.Context, c cli.Client, ref rollout.EpisodeRef) (diplomacyview.Played, error) {
	p := diplomacyview.Played{Name: strconv.FormatInt(int64(ref.Seq), 10) + "/" + strconv.Itoa(ref.Sample)}
	var err error
	if p.Turns, _, err = c.Turns(ctx, ref); err != nil {
		return p, err
	}
	data, err := c.Game(ctx, ref)
	if err != nil {
		return p, err
	}
	var game diplomacy.SavedGame
	if json.Unmarshal(data, &game) == nil && len(game.Phases) > 0 {
		p.Game = &game
	}
	return p, nil
}
