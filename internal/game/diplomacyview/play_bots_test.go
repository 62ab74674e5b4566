package diplomacyview

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyenv/bot"
)

// PlayOptions say which game bots play.
type PlayOptions struct {
	Map   *diplomacy.Map      // nil is the standard board
	Bot   bot.Name            // plays every power that Bots does not name; empty is bot.Dumb
	Bots  map[string]bot.Name // by power
	Seed  int64
	Years int // at most so many; 0 is 20
}

const defaultYears = 20

func (o PlayOptions) board() *diplomacy.Map { return board(o.Map) }

// board is m, or else the standard one.
func board(m *diplomacy.Map) *diplomacy.Map {
	if m == nil {
		return diplomacy.Standard()
	}
	return m
}

// Play plays a whole game among bots, to a solo or the last year.
func Play(o PlayOptions) (*diplomacy.SavedGame, error) {
	if o.Years < 0 {
		return nil, fmt.Errorf("%d years: want at least 1", o.Years)
	}
	m := o.board()
	players, err := o.players(m)
	if err != nil {
		return nil, err
	}
	years := o.Years
	if years <= 0 {
		years = defaultYears
	}
	rng := rand.New(rand.NewPCG(uint64(o.Seed), 0))
	generator, adjudicator := diplomacy.NewGenerator(m), diplomacy.NewAdjudicator(m)
	s := diplomacy.NewGame(m)
	game := diplomacy.NewSavedGame(m, fmt.Sprintf("bots-%d", o.Seed))
	end := s.Phase().Year + int32(years)
	for !s.Done() && s.Phase().Year < end {
		orders := make([][]diplomacy.Order, len(players))
		for p, options := range generator.Options(s) {
			if s.MustAct(options.Power) {
				orders[p] = players[p].Orders(s, options, rng)
			}
		}
		out := adjudicator.Process(s, orders)
		game.Add(s, orders, out)
		s = out.Next.Clone()
	}
	game.Finish(s)
	return game, nil
}

// players makes a bot for every power.
func (o PlayOptions) players(m *diplomacy.Map) ([]bot.Bot, error) {
	var errs []error
	for _, power := range slices.Sorted(maps.Keys(o.Bots)) {
		if _, ok := m.PowerByName(power); !ok {
			errs = append(errs, fmt.Errorf("bot of %s: no such power", power))
		}
	}
	if err := o.Bot.Check(); o.Bot != "" && err != nil {
		errs = append(errs, err)
		o.Bot = bot.Dumb
	}
	players := make([]bot.Bot, len(m.Powers()))
	for p, power := range m.Powers() {
		name, ok := o.Bots[power]
		if !ok {
			name = o.Bot
		}
		if name == "" {
			name = bot.Dumb
		}
		b, err := bot.New(name, m)
		if err != nil {
			errs = append(errs, fmt.Errorf("bot of %s: %w", power, err))
		}
		players[p] = b
	}
	return players, errors.Join(errs...)
}
