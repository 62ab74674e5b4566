package diplomacyenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyenv/bot"
	"github.com/millrace/millrace/internal/game/episode"
)

// Env makes games of one configuration on one map. It is immutable.
type Env struct {
	cfg      Config
	m        *diplomacy.Map
	learns   []bool     // by power
	opponent []bot.Name // by power; empty for learners and fixed policies
	policy   []string   // by power: the fixed policy that plays it, if one does
	rules    string
	lastYear int32
}

var (
	_ episode.Warmer  = (*Env)(nil)
	_ episode.Opposed = (*Env)(nil)
)

// New checks the configuration, on its own and against the map, and makes an Env.
func New(cfg Config, m *diplomacy.Map) (*Env, error) {
	if err := errors.Join(cfg.Validate(), cfg.faultsOn(m)); err != nil {
		return nil, err
	}
	e := &Env{cfg: cfg, m: m, rules: rules(m)}
	for _, name := range m.Powers() {
		learns := cfg.Train.All || slices.Contains(cfg.Train.Powers, name)
		opponent := cfg.Opponents[name]
		if !learns && opponent == "" {
			opponent = DefaultOpponent
		}
		policy, fixed := fixedPolicy(opponent)
		if fixed {
			opponent = ""
		}
		e.learns = append(e.learns, learns)
		e.opponent = append(e.opponent, opponent)
		e.policy = append(e.policy, policy)
	}
	start, err := e.start()
	if err != nil {
		return nil, err
	}
	e.lastYear = start.Phase().Year + int32(cfg.HorizonYears) - 1
	return e, nil
}

// Policies names the fixed policies that play powers.
func (e *Env) Policies() []string {
	names := slices.DeleteFunc(slices.Clone(e.policy), func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

func (e *Env) start() (*diplomacy.State, error) {
	if e.cfg.Start == nil {
		return diplomacy.NewGame(e.m), nil
	}
	return diplomacy.NewState(e.m, *e.cfg.Start)
}

// Scenario plays the warm-up of one seed. Where learners play it, WarmUp does.
func (e *Env) Scenario(seed int64) ([]byte, error) {
	if e.Warms() {
		return nil, fmt.Errorf("diplomacy scenario: warmup_policy %s leaves it to a model", e.cfg.WarmupPolicy)
	}
	phases, rng := e.drawWarmup(seed)
	g, err := e.open(record{Start: e.cfg.Start})
	if err != nil {
		return nil, err
	}
	player, err := bot.New(e.cfg.WarmupBot, e.m)
	if err != nil {
		return nil, err
	}
	for range phases {
		if g.state.Done() || g.state.Phase().Year >= e.lastYear {
			break
		}
		orders := make([][]diplomacy.Order, len(e.learns))
		for p, o := range g.options() {
			if g.state.MustAct(o.Power) {
				orders[p] = player.Orders(g.state, o, rng)
			}
		}
		g.play(orders)
	}
	g.record.Warmup = len(g.record.Phases)
	return g.Checkpoint()
}

// drawWarmup draws how many phases the warm-up of a seed has; the stream is for those who play it.
func (e *Env) drawWarmup(seed int64) (int, *rand.Rand) {
	rng := stream("warmup", seed)
	w := e.cfg.WarmupPhases
	return w.Min + rng.IntN(w.Max-w.Min+1), rng
}

// Warms reports whether learners play the warm-up.
func (e *Env) Warms() bool { return e.cfg.WarmupPolicy == WarmupLearner && e.cfg.WarmupPhases.Max > 0 }

// WarmUp begins the game that learners play before a group's games fork.
func (e *Env) WarmUp(seed int64) (episode.Game, error) {
	phases, _ := e.drawWarmup(seed)
	g, err := e.open(record{Start: e.cfg.Start, Seed: seed, WarmUpTo: &phases})
	if err != nil {
		return nil, fmt.Errorf("diplomacy warm-up: %w", err)
	}
	return g, nil
}

// Fork makes the scenario that a warm-up has come to.
func (e *Env) Fork(checkpoint []byte) ([]byte, error) {
	var r record
	if err := json.Unmarshal(checkpoint, &r); err != nil {
		return nil, fmt.Errorf("diplomacy warm-up: %w", err)
	}
	if r.WarmUpTo == nil {
		return nil, errors.New("diplomacy warm-up: the checkpoint is of a game after its fork")
	}
	r.WarmUpTo, r.Seed, r.Warmup = nil, 0, len(r.Phases)
	return json.Marshal(r)
}

// Start begins a game from a scenario.
func (e *Env) Start(scenario []byte, seed int64, sample int) (episode.Game, error) {
	var r record
	if err := json.Unmarshal(scenario, &r); err != nil {
		return nil, fmt.Errorf("diplomacy scenario: %w", err)
	}
	r.Seed, r.Sample = seed, sample
	g, err := e.open(r)
	if err != nil {
		return nil, fmt.Errorf("diplomacy scenario: %w", err)
	}
	return g, nil
}

// Resume continues a game from its checkpoint, by playing its orders again.
func (e *Env) Resume(checkpoint []byte) (episode.Game, error) {
	var r record
	if err := json.Unmarshal(checkpoint, &r); err != nil {
		return nil, fmt.Errorf("diplomacy checkpoint: %w", err)
	}
	g, err := e.open(r)
	if err != nil {
		return nil, fmt.Errorf("diplomacy checkpoint: %w", err)
	}
	return g, nil
}

// stream is a stream of chance of its own for what the parts name.
func stream(parts ...any) *rand.Rand {
	h := fnv.New128a()
	for _, part := range parts {
		fmt.Fprintf(h, "%v\x00", part)
	}
	sum := h.Sum(nil)
	var seed [32]byte
	copy(seed[:], sum)
	return rand.New(rand.NewChaCha8(seed))
}
