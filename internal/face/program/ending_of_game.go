package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Ending is how a program ended a game.
type Ending struct {
	How    How
	Reward Reward // of a game that was played
	Reason string // why it failed, or was left
}

// How says what becomes of a game.
type How uint8

const (
	Played How = iota // it has a reward
	Failed            // the game is at fault, or its program
	Left              // neither is: whoever leases the game next plays it
	Taken             // a webhook plays it alone, and reports it
	Over              // it was over before it was reported
)

// Reward is what a program says at the end: one of the two.
type Reward struct {
	Reward    *float64           `json:"reward,omitempty"`
	Rewards   map[string]float64 `json:"rewards,omitempty"` // by agent
	Truncated bool               `json:"truncated,omitempty"`
}

// readReward reads a JSON object with a reward, whatever else is in it.
func readReward(text []byte) (r Reward, ok bool) {
	err := json.Unmarshal(text, &r)
	return r, err == nil && (r.Reward != nil || r.Rewards != nil)
}

const wanted = `neither {"reward": 0.5} nor {"rewards": {"AGENT": 0.5}}`

// exit is how a process ended.
type exit struct {
	code   int    // -1: by a signal, or it was never started
	how    string // such as "signal: killed"
	last   string // line of stdout
	stderr string // the end of it
	leased int64  // how often its game was leased
}

// mostDeaths is how often a game is leased whose programs are killed: after that the game kills them.
const mostDeaths = 3

// ending is what becomes of the game of a process. That it was killed is not held against the game at first.
func (e exit) ending() Ending {
	reward, ok := readReward([]byte(e.last))
	switch {
	case e.code == 0 && ok:
		return Ending{How: Played, Reward: reward}
	case e.code == 0:
		return Ending{How: Failed, Reason: because("the last line of stdout is "+wanted, e.stderr)}
	case e.code < 0 && e.leased < mostDeaths:
		return Ending{How: Left, Reason: because(e.how, e.stderr)}
	}
	return Ending{How: Failed, Reason: because(e.how, e.stderr)}
}

// answered is what becomes of a game by the answer of a webhook. That one is busy, or not reached by its proxy, is not
// the game's fault.
func answered(status int, body []byte) Ending {
	reward, ok := readReward(body)
	how := fmt.Sprintf("the webhook answers %d", status)
	switch status {
	case http.StatusOK:
		if ok {
			return Ending{How: Played, Reward: reward}
		}
		how += " with " + wanted
	case http.StatusAccepted:
		return Ending{How: Taken}
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return Ending{How: Left, Reason: how}
	}
	return Ending{How: Failed, Reason: because(how, string(body))}
}

// mostReason is how much of a reason the service keeps, in bytes.
const mostReason = 300

// because is a reason with the end of what was said.
func because(how, said string) string {
	said = strings.ToValidUTF8(strings.TrimSpace(said), "?")
	room := max(mostReason-len(how)-len(": ..."), 0)
	switch {
	case said == "":
		return how
	case len(said) > room:
		said = "..." + strings.ToValidUTF8(said[len(said)-room:], "")
	}
	return how + ": " + said
}
