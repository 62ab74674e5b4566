package gamelist

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// The orders that games can be listed in. Names as people ask for them.
const (
	ByGroup   = "group" // the newest first
	ByReward  = "reward"
	ByLength  = "length"
	ByTime    = "seconds"
	ByFailure = "failure"
	ByVersion = "version"
	ByEnd     = "ended"
)

// Orders is all of them.
func Orders() []string {
	return []string{ByGroup, ByReward, ByLength, ByTime, ByFailure, ByVersion, ByEnd}
}

// Query is which games are wanted, and in which order.
type Query struct {
	Sort    string // one of Orders; with - before it the other way round; empty: ByGroup
	State   State
	Group   *rollout.GroupSeq
	Version *rollout.PolicyVersion // that sampled any turn
	Code    rollout.Code           // that its last failure has; "any": one that failed at all
	Agent   string                 // whose reward is meant; empty: the mean of all
	After   string                 // GROUP/EPISODE: the last game of the page before
	Limit   int
}

// AnyCode is the code of a Query for every game of which an attempt failed.
const AnyCode rollout.Code = "any"

// Page is a piece of the list.
type Page struct {
	Games []Game `json:"games"`
	Total int    `json:"total" doc:"Games that match, on all pages"`
	Next  string `json:"next,omitempty" doc:"Ask again with this as after; none: that was the last page"`
}

// Page is the games of a list that a query wants.
func (q Query) Page(games []Game) (Page, error) {
	name, reversed := strings.CutPrefix(q.Sort, "-")
	by, known := ordersByName[cmp.Or(name, ByGroup)]
	if !known {
		return Page{}, rollout.Refuse(rollout.Invalid, "sort=%q: want one of %s, or one of them after -", name,
			strings.Join(Orders(), ", "))
	}
	var found []Game
	for _, g := range games {
		if q.wants(&g) {
			g.Reward = g.rewardOf(q.Agent)
			found = append(found, g)
		}
	}
	slices.SortFunc(found, func(a, b Game) int {
		way := by.compare(&a, &b)
		if reversed {
			way = -way
		}
		return cmp.Or(by.unknownLast(&a, &b), way, cmp.Compare(b.Group, a.Group), cmp.Compare(a.Sample, b.Sample))
	})
	begin, err := q.begin(found)
	if err != nil {
		return Page{}, err
	}
	p := Page{Games: found[begin:], Total: len(found)}
	if q.Limit > 0 && len(p.Games) > q.Limit {
		p.Games = p.Games[:q.Limit]
		last := p.Games[q.Limit-1]
		p.Next = last.place()
	}
	if p.Games == nil {
		p.Games = []Game{}
	}
	return p, nil
}

func (g *Game) place() string {
	return strconv.FormatInt(int64(g.Group), 10) + "/" + strconv.Itoa(g.Sample)
}

// begin is where the page begins.
func (q Query) begin(found []Game) (int, error) {
	if q.After == "" {
		return 0, nil
	}
	at := slices.IndexFunc(found, func(g Game) bool { return g.place() == q.After })
	if at < 0 {
		return 0, rollout.Refuse(rollout.Invalid, "after=%q: the list has no such game, or no longer; ask for it from the "+
			"beginning", q.After)
	}
	return at + 1, nil
}

func (q Query) wants(g *Game) bool {
	switch {
	case q.State != "" && g.State != q.State,
		q.Group != nil && g.Group != *q.Group,
		q.Version != nil && (g.MinVersion == nil || *q.Version < *g.MinVersion || *q.Version > *g.MaxVersion),
		q.Code == AnyCode && g.Code == "",
		q.Code != "" && q.Code != AnyCode && g.Code != q.Code:
		return false
	}
	return q.Agent == "" || g.Rewards == nil || g.rewardOf(q.Agent) != nil
}

// rewardOf is an agent's reward, or the mean of all; nil: not known.
func (g *Game) rewardOf(agent string) *float64 {
	if agent != "" {
		for name, reward := range g.Rewards {
			if strings.EqualFold(name, agent) {
				return &reward
			}
		}
		return nil
	}
	if len(g.Rewards) == 0 {
		return nil
	}
	var sum float64
	for _, name := range slices.Sorted(maps.Keys(g.Rewards)) { // in one order, so that the mean is the same each time
		sum += g.Rewards[name]
	}
	mean := sum / float64(len(g.Rewards))
	return &mean
}

// order is how two games compare: the one that is looked for first, in the order without -, is the larger reward, the
// longer game, the newer group. Games of which it knows nothing come at the end, whichever way round.
type order struct {
	compare func(a, b *Game) int
	unknown func(g *Game) bool
}

var ordersByName = map[string]order{
	ByGroup: {
		func(a, b *Game) int { return cmp.Or(cmp.Compare(b.Group, a.Group), cmp.Compare(a.Sample, b.Sample)) },
		func(*Game) bool { return false }},
	ByReward: {
		func(a, b *Game) int { return cmp.Compare(value(b.Reward), value(a.Reward)) },
		func(g *Game) bool { return g.Reward == nil }},
	ByLength: {
		func(a, b *Game) int { return cmp.Compare(b.Phases, a.Phases) },
		func(*Game) bool { return false }},
	ByTime: {
		func(a, b *Game) int { return cmp.Compare(b.Seconds, a.Seconds) },
		func(g *Game) bool { return g.Seconds == 0 }},
	ByFailure: {
		func(a, b *Game) int { return cmp.Or(cmp.Compare(a.Code, b.Code), b.EndedAt.Compare(a.EndedAt)) },
		func(g *Game) bool { return g.Code == "" }},
	ByVersion: {
		func(a, b *Game) int { return cmp.Compare(value(b.MaxVersion), value(a.MaxVersion)) },
		func(g *Game) bool { return g.MaxVersion == nil }},
	ByEnd: {
		func(a, b *Game) int { return b.EndedAt.Compare(a.EndedAt) },
		func(g *Game) bool { return g.EndedAt.IsZero() }},
}

// unknownLast compares whether a game is known in the order.
func (o order) unknownLast(a, b *Game) int {
	switch ua, ub := o.unknown(a), o.unknown(b); {
	case ua && !ub:
		return 1
	case ub && !ua:
		return -1
	}
	return 0
}

func value[T cmp.Ordered](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}
