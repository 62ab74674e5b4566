package bufferload

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/buffer"
)

// Use is what one kind of command took inside of Redis.
type Use struct {
	Name   string  `json:"name"`
	Keys   string  `json:"keys"` // account, games, fleet or other
	Calls  int     `json:"calls"`
	TurnUs float64 `json:"us_per_turn"`
	CallUs float64 `json:"us_per_call"` // the median: now and then other processes stop Redis inside of a command
	took   []time.Duration
}

// sum is what all calls took, each taken for as long as the median.
func (u *Use) sum() float64 { return float64(u.Calls) * u.CallUs / 1e6 }

// Whose keys a command works on. Those of the account of a run share one slot, those of each game another.
const (
	account = "account"
	games   = "games"
	ofFleet = "fleet"
	other   = "other"
)

// slowLogRoom is how many commands a node remembers while it is traced.
const slowLogRoom = 200_000

// trace has the nodes note every command while a function runs, and adds up how long they took, by name and keys. It
// costs them time of its own, which is why nothing else is measured meanwhile.
func trace(ctx context.Context, nodes []*redis.Client, while func()) ([]Use, error) {
	uses := map[[2]string]*Use{}
	for _, node := range nodes {
		was, err := node.ConfigGet(ctx, "slowlog-*").Result()
		if err != nil {
			return nil, err
		}
		defer setSlowLog(context.WithoutCancel(ctx), node, was) // as far as it answers
		noteAll := map[string]string{"slowlog-max-len": strconv.Itoa(slowLogRoom), "slowlog-log-slower-than": "0"}
		if err := setSlowLog(ctx, node, noteAll); err != nil {
			return nil, err
		}
	}
	while()
	names := buffer.ScriptNames()
	for _, node := range nodes {
		if err := setSlowLog(ctx, node, map[string]string{"slowlog-log-slower-than": "-1"}); err != nil {
			return nil, err
		}
	}
	for _, node := range nodes {
		found, err := node.SlowLogGet(ctx, slowLogRoom).Result()
		if err != nil {
			return nil, err
		}
		_ = node.Do(ctx, "SLOWLOG", "RESET").Err() // they are forgotten one by one in any case
		for i := range found {
			note(uses, names, &found[i])
		}
	}
	var list []Use
	for _, u := range uses {
		slices.Sort(u.took)
		u.CallUs = 1e6 * u.took[len(u.took)/2].Seconds()
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.sum(), a.sum()), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

func setSlowLog(ctx context.Context, node *redis.Client, settings map[string]string) error {
	for name, value := range settings {
		if err := node.ConfigSet(ctx, name, value).Err(); err != nil {
			return err
		}
	}
	return nil
}

// note adds a command, unless it is one that a script called.
func note(uses map[[2]string]*Use, names map[string]string, c *redis.SlowLog) {
	if strings.HasPrefix(c.ClientAddr, "?") || len(c.Args) == 0 {
		return
	}
	name, keys := strings.ToLower(c.Args[0]), other
	key := 1
	if strings.HasPrefix(name, "eval") && len(c.Args) > 3 {
		key = 3
		_, of, _ := strings.Cut(c.Args[key], "}:")
		name = cmp.Or(names[c.Args[1]], "a script on "+of)
	}
	if len(c.Args) > key {
		keys = whose(c.Args[key])
	}
	of := [2]string{name, keys}
	if uses[of] == nil {
		uses[of] = &Use{Name: name, Keys: keys}
	}
	uses[of].Calls++
	uses[of].took = append(uses[of].took, c.Duration)
}

// whose is whose key it is: the hash tag of a run, of a game (RUN/SEQ/SAMPLE) or of the fleet.
func whose(key string) string {
	_, tag, tagged := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	switch {
	case !tagged:
		return other
	case tag == "fleet":
		return ofFleet
	case strings.Contains(tag, "/"):
		return games
	}
	return account
}
