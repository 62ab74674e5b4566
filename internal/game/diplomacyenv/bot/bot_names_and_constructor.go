// Package bot is players of Diplomacy without a model: for opponents, for the warm-up of scenarios, and to measure
// against. A bot sees the position and what its power may order, draws from the stream it is given and nothing else,
// so that the same seed gives the same game.
//
// Start reading at Bot and New. DumbBot, the only one that means to win, is in the files dumb_bot_*.go.
package bot

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// A Bot gives orders. It may keep memory between calls to reuse it, never to remember; one Bot serves one goroutine.
type Bot interface {
	// Orders are the orders of power o.Power in position s: all legal, at most one per site, at most o.Count. The
	// caller may keep them.
	Orders(s *diplomacy.State, o diplomacy.Options, rng *rand.Rand) []diplomacy.Order
}

// Name names a kind of bot.
type Name string

// The bots.
const (
	Hold   Name = "hold"   // holds, disbands what is dislodged, waives builds
	Random Name = "random" // uniform over the legal orders of each unit
	Chaos  Name = "chaos"  // uniform over the moves of each unit
	Dumb   Name = "dumb"   // DumbBot: moves to where centres are to be won or held
)

// Names are all bots, weakest first.
func Names() []Name { return []Name{Hold, Random, Chaos, Dumb} }

// Check reports whether there is a bot of that name.
func (n Name) Check() error {
	for _, known := range Names() {
		if n == known {
			return nil
		}
	}
	var list []string
	for _, known := range Names() {
		list = append(list, string(known))
	}
	return fmt.Errorf("no bot %q (there are %s)", string(n), strings.Join(list, ", "))
}

// New makes a bot that plays on m.
func New(name Name, m *diplomacy.Map) (Bot, error) {
	if err := name.Check(); err != nil {
		return nil, err
	}
	switch name {
	case Hold:
		return holdBot{}, nil
	case Random:
		return randomBot{}, nil
	case Chaos:
		return chaosBot{}, nil
	default:
		return newDumbBot(m), nil
	}
}
