package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyview"
	"github.com/millrace/millrace/internal/rollout"
)

// showGame is what run game was asked for.
type showGame struct {
	diplomacyview.ShowOptions
	dir         string
	turn        int
	turns, diff bool
}

func (s *session) showGameCommand() *cobra.Command {
	var o showGame
	cmd := &cobra.Command{
		Use:  "game RUN [GROUP/EPISODE] | FILE.json",
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Format = s.format; o.Format == "yaml" {
				return Usage("-o yaml: a game is shown as a table or as json")
			}
			o.Color = terminal(s.Stdout) && s.Getenv("NO_COLOR") == ""
			o.Width = min(s.width(), widestGame)
			if o.diff {
				return s.diffGames(cmd.Context(), o, args)
			}
			return s.showGame(cmd.Context(), o, cmd.Flags().Changed("turn"), args)
		},
	}
	cmd.ValidArgsFunction = s.completeRuns
	f := cmd.Flags()
	f.StringVar(&o.Phase, "phase", "", "only this phase, such as F1901M")
	f.BoolVar(&o.turns, "turns", false, "list the game's turns and its agents' rewards")
	f.IntVar(&o.turn, "turn", 0, "show this turn, numbered from 0: prompt, completion, tokens and logprobs")
	f.BoolVar(&o.diff, "diff", false, "compare two games of a group: RUN A B, or RUN/GROUP/EPISODE twice")
	f.StringVar(&o.dir, "svg", "", "draw a map per phase into this folder")
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
			return "", nil, Usage("%v", err)
		}
		games = append(games, ref)
	}
	return run, games, nil
}

func (s *session) showGame(ctx context.Context, o showGame, oneTurn bool, args []string) error {
	if fromFile := strings.HasSuffix(args[0], ".json") || strings.HasSuffix(args[0], ".jsonl"); fromFile {
		if len(args) > 1 || o.turns || oneTurn {
			return Usage("%s is a file: it is shown alone, and has no turns", args[0])
		}
		game, err := s.gameInFile(args[0])
		if err != nil {
			return err
		}
		return s.showPhases(o, game)
	}
	run, games, err := gameNames(args)
	if err != nil {
		return err
	}
	if len(games) > 1 {
		return Usage("one game is shown at a time; two are compared with --diff")
	}
	client, err := s.client()
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
		s.Say("game %s", ref)
	}
	switch {
	case oneTurn:
		return s.showTurn(ctx, client, ref, o)
	case o.turns:
		return s.showTurns(ctx, client, ref)
	}
	if data == nil {
		if data, err = client.Game(ctx, ref); err != nil {
			return err
		}
	}
	var game diplomacy.SavedGame
	if err := json.Unmarshal(data, &game); err != nil || len(game.Phases) == 0 {
		if s.format == "json" {
			return s.show(data, nil)
		}
		if o.Phase != "" || o.dir != "" {
			return Usage("%s is no game of Diplomacy: it has no phases and no maps; see its turns with --turns", ref)
		}
		return s.showTurns(ctx, client, ref)
	}
	return s.showPhases(o, &game)
}

func (s *session) showPhases(o showGame, game *diplomacy.SavedGame) error {
	if o.dir != "" {
		files, err := diplomacyview.SVGs(o.dir, o.Phase, game)
		if err != nil {
			return fmt.Errorf("draw maps: %w", err)
		}
		s.Say("%d maps in %s", len(files), o.dir)
	}
	return diplomacyview.Show(s.Stdout, game, o.ShowOptions)
}

// gameInFile reads a saved game.
func (s *session) gameInFile(name string) (*diplomacy.SavedGame, error) {
	if strings.HasSuffix(name, ".jsonl") {
		return nil, Usage("%s: run game takes one saved game, not a file of several", name)
	}
	data, err := s.ReadFile(name)
	if err != nil {
		return nil, Usage("%v", err)
	}
	var game diplomacy.SavedGame
	if err := json.Unmarshal(data, &game); err != nil {
		return nil, fmt.Errorf("game %s: %w", name, err)
	}
	return &game, nil
}

func (s *session) showTurns(ctx context.Context, c Client, ref rollout.EpisodeRef) error {
	turns, a, err := c.Turns(ctx, ref)
	if err != nil {
		return err
	}
	if s.format == "table" && len(turns.Turns) > 0 {
		s.Say("one turn with its tokens: millrace run game %s %d/%d --turn 0", ref.Run, ref.Seq, ref.Sample)
	}
	return s.show(a.Body, func() error { return writeTurns(s.Stdout, turns, s.width()) })
}

func (s *session) showTurn(ctx context.Context, c Client, ref rollout.EpisodeRef, o showGame) error {
	if o.turn < 0 {
		return Usage("--turn %d: turns are numbered from 0", o.turn)
	}
	turn, a, err := c.Turn(ctx, ref, o.turn)
	if err != nil {
		return err
	}
	return s.show(a.Body, func() error { return writeTurn(s.Stdout, turn, s.width()) })
}

// diffGames compares two games of a group.
func (s *session) diffGames(ctx context.Context, o showGame, args []string) error {
	_, games, err := gameNames(args)
	if err != nil {
		return err
	}
	if len(games) != 2 {
		return Usage("--diff compares two games, RUN A B such as demo 0/3 0/5; these are %d", len(games))
	}
	a, b := games[0], games[1]
	if a.GroupRef != b.GroupRef {
		s.Say("note: %s and %s are of different groups and began differently: rewards are compared within a group", a, b)
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	var played [2]diplomacyview.Played
	for i, ref := range games {
		if played[i], err = readPlayed(ctx, client, ref); err != nil {
			return err
		}
	}
	return diplomacyview.ShowDiff(s.Stdout, played[0], played[1], o.ShowOptions)
}

// readPlayed reads what two games are compared by: turns and rewards, and the phases of a game that has them.
func readPlayed(ctx context.Context, c Client, ref rollout.EpisodeRef) (diplomacyview.Played, error) {
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
