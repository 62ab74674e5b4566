package runspec

import (
	"bytes"
	"encoding/json"
)

// League has past versions of the run play where the environment's options say LeagueOpponent. One opponent is drawn
// for each group when it is launched.
type League struct {
	Pool LeaguePool `json:"pool,omitempty"`
	// Slots is how many past versions are kept on the engines for it, each in an adapter's slot. 0: there is no league.
	Slots int `json:"slots,omitempty"`
	// Bot plays instead of a version, as the environment calls it, in a share of the groups.
	Bot      string  `json:"bot,omitempty"`
	BotShare float64 `json:"bot_share,omitempty"`
}

// LeaguePool is which past versions are kept, and how likely each is drawn.
type LeaguePool string

// The pools; the empty one is UniformOpponents. The latter two go by the learner's share p of games that it won.
const (
	UniformOpponents LeaguePool = "uniform"   // of all past versions each as likely
	NewestOpponents  LeaguePool = "newest"    // the newest ones, each as likely
	CloseOpponents   LeaguePool = "closeness" // p (1 - p)
	LostOpponents    LeaguePool = "losses"    // (1 - p) squared
)

// LeagueOpponent is what an environment's options call an opponent that the league draws.
const LeagueOpponent = "league:past"

// HasLeague reports whether an opponent in the options is the league's.
func (e Environment) HasLeague() bool { return bytes.Contains(e.Options, quoted(LeagueOpponent)) }

// Against is the environment with an opponent in place of the league's.
func (e Environment) Against(opponent string) Environment {
	e.Options = bytes.ReplaceAll(e.Options, quoted(LeagueOpponent), quoted(opponent))
	return e
}

//workflowcheck:ignore a text is written in the same way each time
func quoted(text string) []byte {
	b, _ := json.Marshal(text) // a text always can be
	return b
}
