package pageview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// Group is the page of a group: its games side by side.
type Group struct {
	Run     string
	Seq     rollout.GroupSeq
	State   string
	Kept    bool   // phases and turns of a game can be shown
	Missing string // why they cannot
	Games   []GameRow
	Agents  []string
}

// GameRow is one game of a group.
type GameRow struct {
	gamelist.Game
	Class                     tablerow.Grade
	Href, Reward, Time, Error string
	Versions                  string // that sampled its turns
	ByAgent                   []AgentCell
}

// AgentCell is what an agent got for a game.
type AgentCell struct{ Agent, Reward, Advantage, Class string }

// GroupOf makes the page of a group of its games, and of the turns of those that are kept.
func GroupOf(run rollout.RunName, seq rollout.GroupSeq, games []gamelist.Game, turns map[int]gamelist.Turns) Group {
	v := Group{Run: string(run.Plain()), Seq: seq}
	games = slices.Clone(games)
	slices.SortFunc(games, func(a, b gamelist.Game) int { return a.Sample - b.Sample })
	agents := map[string]bool{}
	for _, g := range games {
		for agent := range g.Rewards {
			agents[agent] = true
		}
		for _, a := range turns[g.Sample].Agents {
			agents[a.Agent] = true
		}
	}
	v.Agents = slices.Sorted(maps.Keys(agents))
	for _, g := range games {
		v.State = cmp.Or(v.State, g.GroupState)
		row := gameRow(g)
		if g.Kept {
			v.Kept = true
			row.Href = fmt.Sprintf("../games/%d/%d", g.Group, g.Sample)
		}
		for _, agent := range v.Agents {
			row.ByAgent = append(row.ByAgent, agentCell(agent, g, turns[g.Sample].Agents))
		}
		v.Games = append(v.Games, row)
	}
	return v
}

func gameRow(g gamelist.Game) GameRow {
	row := GameRow{Game: g, Class: tablerow.GameGrade(g.State), Reward: number(g.Reward), Error: Brief(g.Failure)}
	if g.Seconds > 0 {
		row.Time = units.Seconds(g.Seconds)
	}
	if g.MinVersion != nil && g.MaxVersion != nil {
		row.Versions = fmt.Sprintf("v%d", *g.MinVersion)
		if *g.MaxVersion != *g.MinVersion {
			row.Versions += fmt.Sprintf(" to v%d", *g.MaxVersion)
		}
	}
	return row
}

func agentCell(agent string, g gamelist.Game, agents []gamelist.AgentView) AgentCell {
	cell := AgentCell{Agent: agent}
	if reward, known := g.Rewards[agent]; known {
		cell.Reward = fmt.Sprintf("%.3f", reward)
	}
	for _, a := range agents {
		if a.Agent == agent {
			cell.Reward, cell.Advantage = fmt.Sprintf("%.3f", a.Reward), fmt.Sprintf("%+.2f", a.Advantage)
			switch {
			case a.Advantage > 0.5:
				cell.Class = "good"
			case a.Advantage < -0.5:
				cell.Class = "bad"
			}
		}
	}
	return cell
}

func number(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%.3f", *v)
}
