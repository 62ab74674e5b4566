package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/diplomacy"
	"github.com/millrace/millrace/internal/diplomacyenv/bot"
	"github.com/millrace/millrace/internal/diplomacyview"
	"github.com/millrace/millrace/internal/rollout"
)

func newGameCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use:   "game",
		Short: "See games of Diplomacy: of a run, among bots, or from a file",
	}
	parent.AddCommand(newShowGameCommand(env), newPlayGameCommand(env), newReplayCommand(env))
	return parent
}

func newShowGameCommand(env environment) *cobra.Command {
	var o diplomacyview.ShowOptions
	var dir, server string
	cmd := &cobra.Command{
		Use:   "show RUN[/GROUP/EPISODE] | FILE.json",
		Short: "Show a game phase by phase: orders, results, centres; --svg DIR draws its maps",
		Long: `Show one game: of a run, named RUN/GROUP/EPISODE or by RUN alone the newest, finished or in progress; or a saved game in the format of the python diplomacy
package. With --svg the maps are drawn too, one file per phase.`,
		Example: `  millrace game show diplomacy-qwen7b
  millrace game show diplomacy-qwen7b/0/3
  millrace game show diplomacy-qwen7b/0/3 --phase F1902M --svg maps/`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := diplomacyview.CheckFormat(o.Format); err != nil {
				return usage("%v", err)
			}
			game, err := env.savedGame(cmd, server, args[0])
			if err != nil {
				return err
			}
			if err := env.drawMaps(dir, o.Phase, game); err != nil {
				return err
			}
			o.Color = colourful(env.stdout)
			return diplomacyview.Show(env.stdout, game, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Format, "output", "o", diplomacyview.Table, "table or json, the saved game itself")
	f.StringVar(&o.Phase, "phase", "", "only this phase, such as F1901M")
	f.StringVar(&dir, "svg", "", "draw a map per phase into this folder")
	f.StringVar(&server, "server", cli.ServerOf(os.Getenv), "URL of the API server ($MILLRACE_SERVER)")
	return cmd
}

// drawMaps draws a game's maps into dir, if there is one: all of them, or that of one phase.
func (e environment) drawMaps(dir, phase string, game *diplomacy.SavedGame) error {
	if dir == "" {
		return nil
	}
	files, err := diplomacyview.SVGs(dir, phase, game)
	if err != nil {
		return fmt.Errorf("draw maps: %w", err)
	}
	e.say("%d maps in %s", len(files), dir)
	return nil
}

// savedGame reads a game from a file, or asks the server for one of a run.
func (e environment) savedGame(cmd *cobra.Command, server, name string) (*diplomacy.SavedGame, error) {
	var data []byte
	var err error
	if strings.HasSuffix(name, ".jsonl") {
		return nil, usage("%s: a file of recorded games is for millrace game replay; show takes one saved game", name)
	} else if strings.HasSuffix(name, ".json") {
		if data, err = e.readFile(name); err != nil {
			return nil, usage("%v", err)
		}
	} else {
		data, err = e.gameOfRun(cmd.Context(), server, name)
	}
	if err != nil {
		return nil, err
	}
	var game diplomacy.SavedGame
	if err := json.Unmarshal(data, &game); err != nil {
		return nil, fmt.Errorf("game %s: %w", name, err)
	}
	return &game, nil
}

// gameOfRun asks the server for the game RUN/GROUP/EPISODE, or for the newest of RUN.
func (e environment) gameOfRun(ctx context.Context, server, name string) ([]byte, error) {
	client, err := e.client(server)
	if err != nil {
		return nil, err
	}
	if run := rollout.RunName(name); run.Validate() == nil {
		ref, game, err := client.LatestGame(ctx, run)
		if err == nil {
			e.say("game %s", ref)
		}
		return game, err
	}
	ref, err := rollout.ParseEpisodeRef(name)
	if err != nil {
		return nil, usage("%v", err)
	}
	return client.Game(ctx, ref)
}

func newPlayGameCommand(env environment) *cobra.Command {
	o := diplomacyview.PlayOptions{Bot: bot.Dumb}
	var bots map[string]string
	var which, dir, mapFile string
	cmd := &cobra.Command{
		Use:   "play [--bots [NAME]]",
		Short: "Play a whole game among bots and show its centre table",
		Example: `  millrace game play --bots dumb
  millrace game play --bots dumb --power FRANCE=random --years 10 --orders`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 1 { // a flag that may stand alone does not take the next word
				if !cmd.Flags().Changed("bots") || which != bareBots {
					return usage("unexpected argument %q", args[0])
				}
				which = args[0]
			}
			if o.Years == 0 { // to Play it is no wish
				return usage("0 years: want at least 1")
			}
			if o.Map, err = env.loadBoard(mapFile); err != nil {
				return err
			}
			o.Bot = bot.Name(which)
			o.Bots = map[string]bot.Name{}
			for power, name := range bots {
				o.Bots[strings.ToUpper(power)] = bot.Name(name)
			}
			o.Color = colourful(env.stdout)
			game, err := diplomacyview.Play(o)
			if err != nil {
				return usage("%v", err)
			}
			if err := env.drawMaps(dir, "", game); err != nil {
				return err
			}
			return diplomacyview.ShowPlayed(env.stdout, game, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&which, "bots", string(bot.Dumb), fmt.Sprintf("who plays: one of %v", bot.Names()))
	f.Lookup("bots").NoOptDefVal = bareBots
	f.StringVar(&mapFile, "map", "", mapUsage)
	f.StringToStringVar(&bots, "power", nil, "who plays one power instead, as FRANCE=random; repeatable")
	f.Int64Var(&o.Seed, "seed", 1, "the same seed plays the same game")
	f.IntVar(&o.Years, "years", 20, "longest game in years")
	f.BoolVar(&o.Orders, "orders", false, "show every phase's orders too")
	f.StringVarP(&o.Format, "output", "o", diplomacyview.Table, "table or json")
	f.StringVar(&dir, "svg", "", "draw a map per phase into this folder")
	return cmd
}

func newReplayCommand(env environment) *cobra.Command {
	o := diplomacyview.ReplayOptions{Format: diplomacyview.Table}
	var mapFile string
	cmd := &cobra.Command{
		Use:   "replay FILE.jsonl",
		Short: "Play recorded games again and report every difference; exit code 1 if there is any",
		Long: `Play recorded games, one JSON object a line, again by the rules and compare every phase with the record: units, centres, dislodged units
and where they may retreat to. "-" is standard input.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			if o.Map, err = env.loadBoard(mapFile); err != nil {
				return err
			}
			if err := diplomacyview.CheckFormat(o.Format); err != nil {
				return usage("%v", err)
			}
			if args[0] == "-" {
				return diplomacyview.Replay(env.stdout, env.stdin, o)
			}
			f, err := os.Open(args[0])
			if err != nil {
				return usage("%v", err)
			}
			defer f.Close() // it is only read
			if err := diplomacyview.Replay(env.stdout, f, o); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&o.Format, "output", "o", o.Format, "table or json")
	cmd.Flags().StringVar(&mapFile, "map", "", mapUsage)
	return cmd
}

// bareBots is what --bots means without a name.
const bareBots = string(bot.Dumb)

const mapUsage = "file of another board, in the format of internal/diplomacy/standard_map.json"

// loadBoard reads a board; no name is the standard one.
func (e environment) loadBoard(file string) (*diplomacy.Map, error) {
	if file == "" {
		return diplomacy.Standard(), nil
	}
	data, err := e.readFile(file)
	if err != nil {
		return nil, usage("%v", err)
	}
	m, err := diplomacy.LoadMap(data)
	if err != nil {
		return nil, usage("%s: %v", file, err)
	}
	return m, nil
}

// colourful reports whether a person reads w on a terminal that may show colours.
func colourful(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && isatty.IsTerminal(f.Fd())
}
