package diplomacyenv

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyenv/bot"
	"github.com/millrace/millrace/internal/game/diplomacyenv/orderlang"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
)

// The counters of an Outcome.
const (
	CountFull    = "answers_full"    // a legal order for everything that was asked, and nothing else
	CountPartial = "answers_partial" // a legal order, but some missing or some line wrong
	CountEmpty   = "answers_empty"   // no line at all
	CountInvalid = "answers_invalid" // lines, but no legal order
	CountLegal   = "orders_legal"
	CountIllegal = "orders_illegal"
	CountMissing = "orders_missing" // left to the rules: hold, disband, civil disorder, waive
)

// The counters of fixed policies' orders: one that is held to no constraint may give others than legal ones.
const (
	CountOpponentLegal   = "opponents_legal"
	CountOpponentIllegal = "opponents_illegal"
	CountOpponentMissing = "opponents_missing"
)

// game is one game from the fork on, or the warm-up before it.
type game struct {
	env         *Env
	state       *diplomacy.State
	record      record
	phases      []byte       // the record's, as JSON, with commas between them: written once each
	rewardTally *rewardTally // nil before the fork
	history     []string

	generator   *diplomacy.Generator
	adjudicator *diplomacy.Adjudicator
	bots        map[bot.Name]bot.Bot
}

// open plays a record again.
func (e *Env) open(r record) (*game, error) {
	start, err := r.start(e.m)
	if err != nil {
		return nil, err
	}
	phases := r.Phases
	r.Map, r.Phases = e.m.Name(), nil
	g := &game{
		env: e, state: start, record: r, bots: map[bot.Name]bot.Bot{},
		generator: diplomacy.NewGenerator(e.m), adjudicator: diplomacy.NewAdjudicator(e.m),
	}
	for i, phase := range phases {
		if i == r.Warmup {
			g.rewardTally = newRewardTally(e.cfg.Reward, g.state)
		}
		orders, err := phase.orders(g.state)
		if err != nil {
			return nil, err
		}
		g.play(orders)
	}
	if g.rewardTally == nil {
		g.rewardTally = newRewardTally(e.cfg.Reward, g.state)
	}
	return g, nil
}

// Phase is what is to be played next.
func (g *game) Phase() string { return g.state.Phase().String() }

// Done reports whether the game is won, at its horizon or without learners, and a warm-up ready to fork.
func (g *game) Done() bool { return g.state.Done() || g.atHorizon() || !g.learnerLeft() || g.atFork() }

// atFork reports whether a warm-up has all its phases, or has come to the last year, which it leaves to the game.
func (g *game) atFork() bool {
	to := g.record.WarmUpTo
	return to != nil && (len(g.record.Phases) >= *to || g.state.Phase().Year >= g.env.lastYear)
}

func (g *game) atHorizon() bool { return g.state.Phase().Year > g.env.lastYear }

func (g *game) learnerLeft() bool {
	for p, learns := range g.env.learns {
		if learns && !g.state.Eliminated(diplomacy.Power(p)) {
			return true
		}
	}
	return false
}

func (g *game) options() []diplomacy.Options { return g.generator.Options(g.state) }

// Prompts asks every learner and every fixed policy that has anything to decide, in the order of the powers.
func (g *game) Prompts() ([]episode.Prompt, error) {
	if g.Done() {
		return nil, nil
	}
	cfg := g.env.cfg.Prompt
	shared := board(g.state, g.env.lastYear, g.history)
	var prompts []episode.Prompt
	for p, o := range g.options() {
		if !g.asks(o.Power) {
			continue
		}
		prompts = append(prompts, episode.Prompt{
			Agent:      g.env.m.PowerName(diplomacy.Power(p)),
			Text:       cfg.wrap(g.env.rules, shared+cfg.task(g.state, o)),
			Constraint: g.env.constraint(o),
			MaxTokens:  g.env.maxTokens(o),
			Stop:       g.env.stop(),
			Policy:     g.env.policy[p],
		})
	}
	return prompts, nil
}

func (g *game) asks(p diplomacy.Power) bool { return g.prompted(p) && g.state.MustAct(p) }

// prompted reports whether a model plays a power: the learner or a fixed policy.
func (g *game) prompted(p diplomacy.Power) bool { return g.env.learns[p] || g.env.policy[p] != "" }

// Act plays the phase with the models' answers and the bots' orders.
func (g *game) Act(answers map[string]string) (episode.Outcome, error) {
	if g.Done() {
		return episode.Outcome{}, errors.New("the game is over")
	}
	out := episode.Outcome{Counts: map[string]int64{}}
	orders := make([][]diplomacy.Order, len(g.env.learns))
	for p, o := range g.options() {
		switch {
		case !g.state.MustAct(o.Power):
		case !g.prompted(o.Power):
			list, err := g.botOrders(o)
			if err != nil {
				return out, err
			}
			orders[p] = list
		default:
			name := g.env.m.PowerName(o.Power)
			answer, ok := answers[name]
			if !ok {
				return out, fmt.Errorf("no answer of %s, who was asked", name)
			}
			reading := orderlang.Read(g.state, o, answer)
			if g.env.learns[p] {
				count(out.Counts, reading)
			} else {
				out.Counts[CountOpponentLegal] += int64(len(reading.Orders))
				out.Counts[CountOpponentIllegal] += int64(reading.Illegal)
				out.Counts[CountOpponentMissing] += int64(reading.Missing)
			}
			orders[p] = reading.Orders
		}
	}
	rewards := g.play(orders)
	if g.env.cfg.Reward.PerTurn {
		out.Rewards = rewards
	}
	return out, nil
}

func count(counts map[string]int64, r orderlang.Reading) {
	counts[verdictCount[r.Verdict]]++
	counts[CountLegal] += int64(len(r.Orders))
	counts[CountIllegal] += int64(r.Illegal)
	counts[CountMissing] += int64(r.Missing)
}

var verdictCount = map[orderlang.Verdict]string{
	orderlang.Full: CountFull, orderlang.Partial: CountPartial, orderlang.Empty: CountEmpty,
	orderlang.Invalid: CountInvalid,
}

// botOrders asks the bot that plays a power.
func (g *game) botOrders(o diplomacy.Options) ([]diplomacy.Order, error) {
	return g.ordersOf(g.env.opponent[o.Power], o)
}

// play plays one phase, keeps it in the record, and returns the rewards of the learners' turns in it.
func (g *game) play(orders [][]diplomacy.Order) map[string]float64 {
	before := g.state
	g.keep(newPlayed(before, orders))
	out := g.adjudicator.Process(before, orders)
	g.remember(before, out)
	g.state = out.Next.Clone()
	if g.rewardTally == nil {
		return nil
	}
	g.rewardTally.observe(before, out)
	rewards := map[string]float64{}
	for p, learns := range g.env.learns {
		if power := diplomacy.Power(p); learns && before.MustAct(power) {
			rewards[g.env.m.PowerName(power)] = g.rewardTally.turn(g.state, power)
		}
	}
	return rewards
}

// remember keeps the last phases in words, as many as prompts show.
func (g *game) remember(before *diplomacy.State, out *diplomacy.Outcome) {
	n := g.env.cfg.Prompt.HistoryPhases
	if n == 0 {
		return
	}
	g.history = append(g.history, historyLine(before, out))
	if len(g.history) > n {
		g.history = g.history[len(g.history)-n:]
	}
}

// keep adds a phase to the record.
func (g *game) keep(p played) {
	g.record.Phases = append(g.record.Phases, p)
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is texts alone
	}
	if len(g.phases) > 0 {
		g.phases = append(g.phases, ',')
	}
	g.phases = append(g.phases, text...)
}

// Checkpoint is everything that was ordered so far: the record as JSON, of which only the head is written anew.
func (g *game) Checkpoint() ([]byte, error) {
	head := g.record
	head.Phases = nil
	text, err := json.Marshal(head)
	if err != nil || len(g.phases) == 0 {
		return text, err
	}
	const none = `null}` // the phases come last
	b := make([]byte, 0, len(text)+len(g.phases))
	b = append(append(b, text[:len(text)-len(none)]...), '[')
	return append(append(b, g.phases...), ']', '}'), nil
}

// The counters of a Result.
const (
	CountWarmup = "warmup_phases"
	CountPlayed = "played_phases" // from the fork on
	CountSolo   = "solo"
)

// Seats compares all powers by the reward that the learners earn.
func (g *game) Seats() []rollout.Seat {
	seats := make([]rollout.Seat, len(g.env.learns))
	for p := range seats {
		player := string(g.env.opponent[p])
		if name := g.env.policy[p]; name != "" {
			player = rollout.PlayedByPolicy + name
		}
		power := diplomacy.Power(p)
		seats[p] = rollout.Seat{Place: g.env.m.PowerName(power), Player: player, Score: g.rewardTally.total(g.state, power)}
	}
	return seats
}

// Result rewards the learners.
func (g *game) Result() (episode.Result, error) {
	if !g.Done() || g.record.WarmUpTo != nil {
		return episode.Result{}, errors.New("the game is not over")
	}
	result := episode.Result{
		Rewards:   map[string]float64{},
		Truncated: !g.state.Done() && g.atHorizon(),
		Counts: map[string]int64{
			CountWarmup: int64(g.record.Warmup),
			CountPlayed: int64(len(g.record.Phases) - g.record.Warmup),
		},
	}
	if g.state.Winner() != diplomacy.NoPower {
		result.Counts[CountSolo] = 1
	}
	for p, learns := range g.env.learns {
		if learns {
			result.Rewards[g.env.m.PowerName(diplomacy.Power(p))] = g.rewardTally.total(g.state, diplomacy.Power(p))
		}
	}
	return result, nil
}
