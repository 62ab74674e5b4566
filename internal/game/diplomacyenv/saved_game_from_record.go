package diplomacyenv

import (
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// SavedGame is the game of a checkpoint, or of a scenario, on the standard map in the form of the python package
// "diplomacy": every phase with its orders and results, and the position reached. id becomes the game's.
func SavedGame(checkpoint []byte, id string) (*diplomacy.SavedGame, error) {
	return savedGame(diplomacy.Standard(), checkpoint, id)
}

// SavedGame is SavedGame for a game on the map of e.
func (e *Env) SavedGame(checkpoint []byte, id string) (*diplomacy.SavedGame, error) {
	return savedGame(e.m, checkpoint, id)
}

func savedGame(m *diplomacy.Map, checkpoint []byte, id string) (*diplomacy.SavedGame, error) {
	var r record
	if err := json.Unmarshal(checkpoint, &r); err != nil {
		return nil, fmt.Errorf("diplomacy checkpoint: %w", err)
	}
	s, err := r.start(m)
	if err != nil {
		return nil, fmt.Errorf("diplomacy checkpoint: %w", err)
	}
	game := diplomacy.NewSavedGame(m, id)
	adjudicator := diplomacy.NewAdjudicator(m)
	for _, phase := range r.Phases {
		orders, err := phase.orders(s)
		if err != nil {
			return nil, fmt.Errorf("diplomacy checkpoint: %w", err)
		}
		out := adjudicator.Process(s, orders)
		game.Add(s, orders, out)
		s = out.Next.Clone()
	}
	game.Finish(s)
	return game, nil
}
