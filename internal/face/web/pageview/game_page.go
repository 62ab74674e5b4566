package pageview

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

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
	Warmup         int // phases before the fork, in which no learner decides
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
	if len(turns.Turns) > 0 {
		v.Warmup = max(0, slices.Index(v.Phases, turns.Turns[0].Phase))
	}
	if n := len(v.Phases); n > 0 {
		v.Index = v.Warmup
		if asked := slices.Index(v.Phases, phase); asked >= 0 {
			v.Index = asked
		}
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
const shortText = 160

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

// GamePath is a game by its group and number, "47/0", of its whole name; empty: it is no game's.
func GamePath(name string) string {
	ref, err := rollout.ParseEpisodeRef(name)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", ref.Seq, ref.Sample)
}
