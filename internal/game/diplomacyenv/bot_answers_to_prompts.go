package diplomacyenv

import (
	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyenv/bot"
)

// BotAnswers is what bots would answer to the prompts of the phase, by agent: games among bots, for whoever wants to
// know how long games, prompts and answers are without a model.
func (g *game) BotAnswers() (map[string]string, error) {
	answers := map[string]string{}
	for p, o := range g.options() {
		if !g.asks(o.Power) {
			continue
		}
		orders, err := g.ordersOf(DefaultOpponent, o)
		if err != nil {
			return nil, err
		}
		var text []byte
		for _, order := range orders {
			text = append(g.env.m.AppendOrder(text, order), '\n')
		}
		answers[g.env.m.PowerName(diplomacy.Power(p))] = string(text)
	}
	return answers, nil
}

// ordersOf asks a bot for the orders of a power. It draws from a stream that no other power, phase or sample draws
// from.
func (g *game) ordersOf(name bot.Name, o diplomacy.Options) ([]diplomacy.Order, error) {
	player, ok := g.bots[name]
	if !ok {
		var err error
		if player, err = bot.New(name, g.env.m); err != nil {
			return nil, err
		}
		g.bots[name] = player
	}
	rng := stream("opponent", g.record.Seed, g.record.Sample, g.Phase(), g.env.m.PowerName(o.Power))
	return player.Orders(g.state, o, rng), nil
}
