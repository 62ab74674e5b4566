package outside

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// End is from which sum on a game is over: two players add 1 to 3 in turn, and who comes there has won.
const End = 9

// begins is how many sums games begin with, from 0 on.
const begins = 3

// Wrong is what is wrong with a game of which these were all answers, and that many for the winner.
func Wrong(answers []string) string {
	sum := 0
	for _, text := range answers {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 3 {
			return fmt.Sprintf("the answer %q was none of the choices", text)
		}
		sum += n
	}
	if sum < End-(begins-1) || sum > End+2 {
		return fmt.Sprintf("its answers %q come to %d, and it was over", answers, sum)
	}
	return ""
}

// Environment serves games of that kind as OpenEnv does.
type Environment struct{ open atomic.Int64 }

// ServeHTTP serves a session at /ws, and everywhere else says how many there are.
func (e *Environment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/ws" {
		fmt.Fprintln(w, e.open.Load())
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	e.open.Add(1)
	defer e.open.Add(-1)
	defer func() { _ = conn.CloseNow() }()
	sum, turn := 0, 0
	for {
		var asked struct {
			Type string `json:"type"`
			Data struct {
				Seed int64 `json:"seed"`
				Add  int   `json:"add"`
			} `json:"data"`
		}
		if wsjson.Read(r.Context(), conn, &asked) != nil || asked.Type == "close" {
			return
		}
		sum, turn = sum+asked.Data.Add, turn+1
		if asked.Type == "reset" {
			sum, turn = int(asked.Data.Seed%begins), 0
		}
		reward := 0.0
		if sum >= End {
			reward = 1
		}
		if wsjson.Write(r.Context(), conn, fields{"type": "observation", "data": fields{"reward": reward, "done": sum >= End,
			"observation": fields{"sum": sum, "current_player_id": turn % 2, "legal_actions": []int{1, 2, 3}}}}) != nil {
			return
		}
	}
}
