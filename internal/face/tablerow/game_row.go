package tablerow

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/game/gamelist"
)

// GameRow is the cells of a game.
type GameRow struct {
	Name, State      string
	Group            string // its group's state, in brackets once the game cannot be shown any more
	Reward, Policy   string
	Phases, Seconds  string
	Tokens, Attempts string
	Failure          string // how its last attempt failed, if one did
	Grade            Grade
}

// RowOfGame makes the cells of a game.
func RowOfGame(g *gamelist.Game) GameRow {
	row := GameRow{
		Name: fmt.Sprintf("%d/%d", g.Group, g.Sample), State: string(g.State), Group: g.GroupState, Reward: "-",
		Policy: "-", Phases: fmt.Sprint(g.Phases), Seconds: "-", Tokens: fmt.Sprint(g.Tokens),
		Attempts: fmt.Sprint(g.Attempts), Failure: string(g.Code), Grade: GameGrade(g.State),
	}
	if !g.Kept {
		row.Group = "(" + row.Group + ")"
	}
	if g.Reward != nil {
		row.Reward = fmt.Sprintf("%.3f", *g.Reward)
	}
	if g.MinVersion != nil && g.MaxVersion != nil {
		row.Policy = fmt.Sprintf("v%d", *g.MinVersion)
		if *g.MaxVersion != *g.MinVersion {
			row.Policy += fmt.Sprintf("-v%d", *g.MaxVersion)
		}
	}
	if g.Seconds != 0 {
		row.Seconds = Seconds(g.Seconds)
	}
	if g.Failure != "" {
		row.Failure += ": " + strings.TrimPrefix(g.Failure, row.Failure+": ")
	}
	return row
}

// GameGrade is how grave a game's state is.
func GameGrade(s gamelist.State) Grade {
	switch s {
	case gamelist.Finished:
		return Good
	case gamelist.Failed:
		return Bad
	case gamelist.Playing, gamelist.Cancelled:
	}
	return Plain
}
