package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Seat is who played at one place of a game, such as a power, and with which score they ended.
type Seat struct {
	Place string `json:"place"`
	// Player is "v12" for a policy version, "policy:NAME" for a fixed policy, or the name of a bot.
	Player string  `json:"player"`
	Score  float64 `json:"score"` // the higher the better
}

// Share is what of a game between two seats the first has: all of it if it ended before the other, half of it if they
// are tied.
func (s Seat) Share(other Seat) float64 { return (1 + float64(cmp.Compare(s.Score, other.Score))) / 2 }

// Player is the name of a version as a player.
func (v PolicyVersion) Player() string { return fmt.Sprintf("v%d", v) }

// VersionOfPlayer is the version that a player is, if it is one.
func VersionOfPlayer(player string) (PolicyVersion, bool) {
	digits, found := strings.CutPrefix(player, "v")
	v, err := strconv.ParseUint(digits, 10, 63)                                         // no sign
	return PolicyVersion(v), found && err == nil && PolicyVersion(v).Player() == player // not v03
}

// PlayedByPolicy comes before the name of a fixed policy, where an opponent or a player is named.
const PlayedByPolicy = "policy:"

// Order is who ended a game before whom, with their places: "v12@X > random@O", or "v12@X = random@O" for a draw. It
// is the same for all games that ended so, and they can be counted by it.
type Order string

const (
	before = " > "
	tied   = " = "
)

// OrderOf is the order of a game with these seats. It is empty where all are one player, from which nobody learns who
// is better.
func OrderOf(seats []Seat) Order {
	if !slices.ContainsFunc(seats, func(s Seat) bool { return s.Player != seats[0].Player }) {
		return ""
	}
	seats = slices.Clone(seats)
	slices.SortFunc(seats, func(a, b Seat) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Place, b.Place))
	})
	var text strings.Builder
	for i, s := range seats {
		switch {
		case i == 0:
		case s.Score == seats[i-1].Score:
			text.WriteString(tied)
		default:
			text.WriteString(before)
		}
		text.WriteString(s.Player + "@" + s.Place)
	}
	return Order(text.String())
}

// Score is the mean share of a player's opponents, of those named, that it ended before; ties are half. False: the two
// did not meet.
func (o Order) Score(player, opponent string) (share float64, met bool) {
	seats, pairs := o.Seats(), 0.0
	for _, a := range seats {
		for _, b := range seats {
			if a.Player == player && b.Player == opponent {
				share += a.Share(b)
				pairs++
			}
		}
	}
	return share / max(1, pairs), pairs > 0
}

// Seats is the seats of an order, best first, with scores that only say who was before whom.
func (o Order) Seats() (seats []Seat) {
	for rank, equals := range strings.Split(string(o), before) {
		for _, text := range strings.Split(equals, tied) {
			if player, place, ok := strings.Cut(text, "@"); ok {
				seats = append(seats, Seat{Place: place, Player: player, Score: -float64(rank)})
			}
		}
	}
	return seats
}
