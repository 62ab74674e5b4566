package diplomacyenv

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// Against is options by which the policy plays seat, or the powers that the options have it learn, and an opponent all
// others. Bots open the games, so that all versions meet the same starts.
func Against(options json.RawMessage, opponent, seat string) (json.RawMessage, error) {
	env, err := FromOptions(options)
	if err != nil {
		return nil, err
	}
	powers, seats := diplomacy.Standard().Powers(), env.cfg.Train.Powers
	if seat != "" {
		seats = []string{strings.ToUpper(seat)}
	}
	switch list := strings.Join(powers, ", "); {
	case len(seats) == 0 || len(seats) == len(powers):
		return nil, fmt.Errorf("seat: all powers learn; say which one the policy plays: %s", list)
	case !slices.Contains(powers, seats[0]):
		return nil, fmt.Errorf("seat: the map has no power %q; there are %s", seat, list)
	}
	set := map[string]any{}
	if len(options) > 0 {
		if err := json.Unmarshal(options, &set); err != nil {
			return nil, err
		}
	}
	others := map[string]string{}
	for _, power := range powers {
		if !slices.Contains(seats, power) {
			others[power] = opponent
		}
	}
	set["train"], set["opponents"], set["warmup_policy"] = seats, others, WarmupBots
	return json.Marshal(set)
}
