package pageview

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// Group is the page of a group: its games side by side.
type Group struct {
	Run    string
	Seq    rollout.GroupSeq
	State  string
	Games  []GameRow
	Agents []string
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
		if v.State == "" {
			v.State = g.GroupState
		}
		row := gameRow(g)
		if g.Kept {
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

// Game is the page of one game, with one of its phases.
type Game struct {
	Run            string
	Group          rollout.GroupSeq
	Sample         int
	Info           *GameRow // what the list of games says of it
	Agents         []gamelist.AgentView
	Phases         []string
	Phase          string // that is shown
	Index          int
	Previous, Next string
	HasMap         bool
	Orders         []PowerOrders
	Messages       []diplomacy.SavedMessage
	Document       string // of a game that is no Diplomacy
	Turns          []TurnRow
	AllTurns       int
	Missing        string // why turns are not shown
	Attempts       []gamelist.FailedAttempt
	Around         []runhistory.Happening // what happened about when its attempts failed, oldest first
	LogCommand     string
	Workflow       string // address of its group's workflow in Temporal's UI; empty: not known
}

// aroundBefore and aroundAfter are how long before the first failure, and after the last one, things happened around
// them.
const (
	aroundBefore = time.Minute
	aroundAfter  = 10 * time.Second
	mostAround   = 30
)

// AddFailures adds how attempts at the game failed, and what happened to the run and the fleet meanwhile.
func (v *Game) AddFailures(failures []gamelist.FailedAttempt, happenings ...[]runhistory.Happening) {
	v.Attempts = failures
	if len(failures) == 0 {
		return
	}
	v.LogCommand = fmt.Sprintf("millrace events %s --game %d/%d --last 0", v.Run, v.Group, v.Sample)
	from, to := failures[0].At.Add(-aroundBefore), failures[len(failures)-1].At.Add(aroundAfter)
	for _, h := range slices.Concat(happenings...) {
		if !h.Routine && h.At.After(from) && h.At.Before(to) {
			h.Text = Brief(h.Text)
			v.Around = append(v.Around, h)
		}
	}
	slices.SortStableFunc(v.Around, func(a, b runhistory.Happening) int { return a.At.Compare(b.At) })
	v.Around = v.Around[max(0, len(v.Around)-mostAround):]
}

// PowerOrders is what one power ordered in a phase.
type PowerOrders struct {
	Power  string
	Orders []OrderRow
}

// OrderRow is an order with what came of it.
type OrderRow struct{ Text, Result, Class string }

// TurnRow is one turn of the game.
type TurnRow struct {
	gamelist.TurnView
	Href, Text, Probability string
	Cut                     bool
}

// GameOf makes the page of a game. The document is the game as its environment writes it; saved is the same where it
// is Diplomacy, and nil otherwise.
func GameOf(ref rollout.EpisodeRef, info *gamelist.Game, saved *diplomacy.SavedGame, document string,
	turns gamelist.Turns, phase string) Game {
	v := Game{Run: string(ref.Run.Plain()), Group: ref.Seq, Sample: ref.Sample, Agents: turns.Agents}
	if info != nil {
		row := gameRow(*info)
		v.Info = &row
	}
	if saved == nil {
		v.Document = harmless(document)
		v.Phases = phasesOf(turns)
	} else {
		for _, p := range saved.Phases {
			v.Phases = append(v.Phases, p.Name)
		}
	}
	if n := len(v.Phases); n > 0 {
		v.Index = max(0, slices.Index(v.Phases, phase))
		v.Phase = v.Phases[v.Index]
		if v.Index > 0 {
			v.Previous = v.Phases[v.Index-1]
		}
		if v.Index < n-1 {
			v.Next = v.Phases[v.Index+1]
		}
	}
	if saved != nil && len(saved.Phases) > 0 {
		v.HasMap = true
		v.addOrders(&saved.Phases[v.Index])
	}
	v.AllTurns = len(turns.Turns)
	for _, t := range turns.Turns {
		if t.Phase == v.Phase {
			v.Turns = append(v.Turns, turnRow(ref, t))
		}
	}
	return v
}

func phasesOf(turns gamelist.Turns) []string {
	var phases []string
	for _, t := range turns.Turns {
		if !slices.Contains(phases, t.Phase) {
			phases = append(phases, t.Phase)
		}
	}
	return phases
}

// addOrders adds what each power ordered, with the results of its units.
func (v *Game) addOrders(p *diplomacy.SavedPhase) {
	for _, power := range slices.Sorted(maps.Keys(p.Orders)) {
		one := PowerOrders{Power: harmless(power)}
		for _, text := range p.Orders[power] {
			row := OrderRow{Text: harmless(text), Result: harmless(strings.Join(p.ResultsOf(text), ", "))}
			if row.Result != "" {
				row.Class = "bad"
			}
			one.Orders = append(one.Orders, row)
		}
		v.Orders = append(v.Orders, one)
	}
	for _, m := range p.Messages {
		m.Message, m.Sender, m.Recipient = harmless(m.Message), harmless(m.Sender), harmless(m.Recipient)
		v.Messages = append(v.Messages, m)
	}
}

// shortText is how much of a completion stands in a list.
const shortText = 600

func turnRow(ref rollout.EpisodeRef, t gamelist.TurnView) TurnRow {
	row := TurnRow{TurnView: t, Href: fmt.Sprintf("%d/turns/%d", ref.Sample, t.Turn), Text: harmless(t.Text),
		Probability: units.Percent(math.Exp(t.MeanLogprob))}
	row.Engine = rollout.EngineID(harmless(string(t.Engine)))
	row.Agent, row.Phase, row.FinishReason = harmless(t.Agent), harmless(t.Phase), harmless(t.FinishReason)
	if letters := []rune(row.Text); len(letters) > shortText {
		row.Text, row.Cut = string(letters[:shortText]), true
	}
	return row
}

// Turn is the page of one turn: what was asked and what was answered, token by token.
type Turn struct {
	TurnRow
	Run            string
	Group          rollout.GroupSeq
	Sample         int
	Prompt, Why    string // the prompt's text, or why there is none
	PromptMore     string
	Completion     string
	CompletionMore string
	PromptCount    int
	Tokens         []TokenSpan
	MoreTokens     int
	Previous, Next string
	Constraint     Constraint
	Timing         string // where its time went
	Failed         []FailedAttempt
	OfGame         string                   // how long its game took
	Attempts       []gamelist.FailedAttempt // at its game, that failed
}

// FailedAttempt is one sending of a turn's request that brought no answer.
type FailedAttempt struct {
	No                  int
	Engine, Code, After string
}

// AddGame adds what is known of the turn's game: how long it took, and which attempts at it failed.
func (v *Turn) AddGame(g gamelist.Game) {
	v.Attempts = g.Failures
	if g.Seconds > 0 {
		v.OfGame = fmt.Sprintf("Its game took %s from its first request at an engine on, %s, %s.", units.Seconds(g.Seconds),
			plural(int(g.Requests), "request"), plural(max(1, g.Attempts), "attempt"))
	}
}

// TokenSpan is a token, shaded by how unlikely it was.
type TokenSpan struct{ Text, Class, Tip string }

// mostTokens is how many tokens a page shades; the API has all.
const mostTokens = 2000

// TurnOf makes the page of a turn.
func TurnOf(ref rollout.EpisodeRef, t gamelist.Turn) Turn {
	v := Turn{TurnRow: turnRow(ref, t.TurnView), Run: string(ref.Run.Plain()), Group: ref.Seq, Sample: ref.Sample,
		Why: harmless(t.NoPrompt), PromptCount: len(t.PromptTokenIDs), Timing: t.Says()}
	if t.Timing != nil {
		first := t.Timing.Attempts - len(t.Timing.Failed) // the earliest are not remembered if they were many
		for i, attempt := range t.Timing.Failed {
			v.Failed = append(v.Failed, FailedAttempt{first + i, harmless(string(attempt.Engine)),
				harmless(string(attempt.Code)), units.Seconds(attempt.Sec)})
		}
	}
	if t.Turn > 0 {
		v.Previous = fmt.Sprint(t.Turn - 1)
	}
	if t.Turn+1 < t.Turns {
		v.Next = fmt.Sprint(t.Turn + 1)
	}
	if t.Prompt != nil {
		v.Prompt, v.PromptMore = Harmless(*t.Prompt)
	}
	v.Completion, v.CompletionMore = Harmless(t.Text)
	for i, token := range t.Sampled {
		if i == mostTokens {
			v.MoreTokens = len(t.Sampled) - i
			break
		}
		span := TokenSpan{Text: fmt.Sprintf(" %d ", token.ID), Class: likelihood(float64(token.Logprob)),
			Tip: fmt.Sprintf("token %d, probability %.3g, logprob %.3f", token.ID, math.Exp(float64(token.Logprob)),
				token.Logprob)}
		if token.Text != nil {
			span.Text = harmless(*token.Text)
		}
		v.Tokens = append(v.Tokens, span)
	}
	return v
}

// likelihood is the shade of a token: the darker, the less likely it was.
func likelihood(logprob float64) string {
	for i, p := range []float64{0.9, 0.5, 0.2, 0.05, 0.01} {
		if logprob >= math.Log(p) {
			return []string{"", "p1", "p2", "p3", "p4"}[i]
		}
	}
	return "p5"
}
