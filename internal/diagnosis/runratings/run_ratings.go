// Package runratings says how strong the versions of a run are, and those they played against: by the results of the
// games of its steps. Start reading at Of.
package runratings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis/rating"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
)

// Meeting is how two players did against each other; the first one has the higher rating.
type Meeting struct {
	Player   string  `json:"player"`
	Opponent string  `json:"opponent"`
	Games    int     `json:"games"`
	Score    float64 `json:"score" doc:"Share of the games in which the player ended before the opponent; ties are half"`
}

// Ratings is the players of a run, and who beats whom.
type Ratings struct {
	Run      rollout.RunName `json:"run"`
	Games    int             `json:"games" doc:"Games between different players"`
	Anchor   string          `json:"anchor" doc:"Who has 0 points"`
	Players  []rating.Rating `json:"players" doc:"Best first; half is half of the 95 % interval"`
	Places   []rating.Rating `json:"places" doc:"What a place is worth, where players change places"`
	Meetings []Meeting       `json:"meetings"`
	// Cycles are players who each beat the next, and the last the first, beyond noise.
	Cycles [][]string `json:"cycles"`
	Notes  []string   `json:"notes"`
}

// MostPlayers bounds the players: neighbouring versions are one player where there are more.
const MostPlayers = 100

// Of rates the players of games, counted by their order; neighbouring versions are one player where there are more
// than most players.
func Of(run rollout.RunName, orders map[rollout.Order]int, most int) (Ratings, error) {
	r := Ratings{Run: run, Players: []rating.Rating{}, Places: []rating.Rating{}, Meetings: []Meeting{},
		Cycles: [][]string{}, Notes: []string{}}
	var games []rating.Game
	for _, order := range slices.Sorted(maps.Keys(orders)) {
		games = append(games, rating.Game{Seats: order.Seats(), Times: orders[order]})
		r.Games += orders[order]
	}
	if len(games) == 0 {
		r.Notes = append(r.Notes, "no game between different players is known: in the run's games one version plays all "+
			"sides, or its environment does not say who played")
		return r, nil
	}
	join(games, max(2, min(most, MostPlayers)))
	r.Anchor = anchorOf(games)
	table, err := rating.Of(games, r.Anchor)
	if err != nil {
		return r, err
	}
	r.Players, r.Places = table.Players, append(r.Places, table.Places...)
	r.Meetings = meetings(games, r.Players)
	r.Cycles = cycles(r.Meetings)
	r.Notes = append(r.Notes, "the intervals take games as independent: where many had one start, they are too narrow")
	if len(r.Places) == 0 {
		r.Notes = append(r.Notes, "nobody changed places: what a place is worth is part of the ratings")
	}
	return r, nil
}

// join makes neighbouring versions one player, "v10-19", so that there are at most so many players.
func join(games []rating.Game, most int) {
	versions, others := map[rollout.PolicyVersion]bool{}, map[string]bool{}
	for _, g := range games {
		for _, s := range g.Seats {
			if v, is := rollout.VersionOfPlayer(s.Player); is {
				versions[v] = true
			} else {
				others[s.Player] = true
			}
		}
	}
	places := max(1, most-len(others))
	if len(versions) <= places {
		return
	}
	names := map[string]string{}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(versions)), (len(versions)+places-1)/places) {
		if len(part) == 1 {
			continue // it keeps its name
		}
		for _, v := range part {
			names[v.Player()] = fmt.Sprintf("v%d-%d", part[0], part[len(part)-1])
		}
	}
	for _, g := range games {
		for i := range g.Seats {
			g.Seats[i].Player = cmp.Or(names[g.Seats[i].Player], g.Seats[i].Player)
		}
	}
}

// anchorOf is who has 0 points: the bot or fixed policy of the most games, else the oldest version.
func anchorOf(games []rating.Game) string {
	played, oldest := map[string]int{}, ""
	for _, g := range games {
		for _, s := range g.Seats {
			v, is := rollout.VersionOfPlayer(strings.SplitN(s.Player, "-", 2)[0])
			if !is {
				played[s.Player] += g.Times
			} else if was, known := rollout.VersionOfPlayer(strings.SplitN(oldest, "-", 2)[0]); !known || v < was {
				oldest = s.Player
			}
		}
	}
	anchor := oldest
	for _, name := range slices.Sorted(maps.Keys(played)) {
		if played[name] > played[anchor] {
			anchor = name
		}
	}
	return anchor
}

// meetings compares each two players in the games that both played: once a game, over all their seats in it.
func meetings(games []rating.Game, players []rating.Rating) []Meeting {
	rank := map[string]int{}
	for i, p := range players {
		rank[p.Name] = i
	}
	met := map[[2]int]*Meeting{}
	for _, g := range games {
		type sum struct{ score, pairs float64 }
		sums := map[[2]int]sum{}
		for _, a := range g.Seats {
			for _, b := range g.Seats {
				if rank[a.Player] < rank[b.Player] {
					pair := [2]int{rank[a.Player], rank[b.Player]}
					s := sums[pair]
					sums[pair] = sum{s.score + a.Share(b), s.pairs + 1}
				}
			}
		}
		for pair, s := range sums {
			if met[pair] == nil {
				met[pair] = &Meeting{Player: players[pair[0]].Name, Opponent: players[pair[1]].Name}
			}
			met[pair].Games += g.Times
			met[pair].Score += float64(g.Times) * s.score / s.pairs
		}
	}
	all := []Meeting{}
	for _, pair := range slices.SortedFunc(maps.Keys(met), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		m := *met[pair]
		m.Score /= float64(m.Games)
		all = append(all, m)
	}
	return all
}

// falseAlarm is how likely it is that any of the results beyond noise is one by chance.
const falseAlarm = 0.05

// mostCycles bounds the cycles that are named.
const mostCycles = 10

// cycles is the shortest cycle through each result that is beyond noise: further from a half than chance among equals
// is likely to bring any of the pairs.
func cycles(meetings []Meeting) [][]string {
	beats, found := map[string][]string{}, map[string]bool{}
	for _, m := range meetings {
		if m.Games < 2 {
			continue
		}
		noise := stat.StudentT(1-falseAlarm/float64(len(meetings)), m.Games-1) * 0.5 / math.Sqrt(float64(m.Games))
		switch {
		case m.Score-0.5 > noise:
			beats[m.Player] = append(beats[m.Player], m.Opponent)
		case 0.5-m.Score > noise:
			beats[m.Opponent] = append(beats[m.Opponent], m.Player)
		}
	}
	all := [][]string{}
	for _, from := range slices.Sorted(maps.Keys(beats)) {
		for _, to := range beats[from] {
			cycle := pathBetween(beats, to, from)
			if cycle == nil {
				continue
			}
			first := slices.Index(cycle, slices.Min(cycle))
			cycle = append(slices.Clone(cycle[first:]), cycle[:first]...)
			if key := strings.Join(cycle, " "); !found[key] && len(all) < mostCycles {
				found[key] = true
				all = append(all, cycle)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b []string) int { return cmp.Compare(len(a), len(b)) })
	return all
}

// pathBetween is the shortest way from one player to another along who beats whom; nil: there is none.
func pathBetween(beats map[string][]string, from, to string) []string {
	before, next := map[string]string{from: ""}, []string{from}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if at == to {
			path := []string{}
			for ; at != ""; at = before[at] {
				path = append(path, at)
			}
			slices.Reverse(path)
			return path
		}
		for _, loser := range beats[at] {
			if _, seen := before[loser]; !seen {
				before[loser] = at
				next = append(next, loser)
			}
		}
	}
	return nil
}
