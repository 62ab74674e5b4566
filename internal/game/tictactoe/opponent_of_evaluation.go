package tictactoe

import (
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/game/episode"
)

// Against is options by which X plays an opponent; seat is X, or empty.
func Against(options json.RawMessage, opponent, seat string) (json.RawMessage, error) {
	if seat != "" && seat != "X" {
		return nil, fmt.Errorf("seat: %q; against an opponent the policy plays X", seat)
	}
	var cfg Config
	if err := episode.ReadOptions(options, &cfg); err != nil {
		return nil, err
	}
	cfg.Opponent, cfg.OpeningPlayed = opponent, false // what opens is drawn, so that all versions meet the same starts
	return json.Marshal(cfg)
}
