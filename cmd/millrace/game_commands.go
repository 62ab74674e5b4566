package main

import (
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
)

func newGameCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use:   "game",
		Short: "See the games of a run, their turns and failures; play and replay Diplomacy",
	}
	parent.AddCommand(newShowGameCommand(env), newPlayGameCommand(env), newReplayCommand(env))
	cli.AddGameCommands(parent, env.clientDeps())
	return parent
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
			counted := countRead(f, env.stderr, "replaying "+args[0])
			err = diplomacyview.Replay(env.stdout, counted, o)
			counted.End()
			if err != nil {
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
