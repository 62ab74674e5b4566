package pageview

import (
	"cmp"
	"fmt"
	"net/url"

	"github.com/millrace/millrace/internal/game/gamelist"
)

// GameList is a page of a run's games, and links to others.
type GameList struct {
	Games          []GameRow
	Total          int64
	States, Orders []Choice
	Next           string // the query of the page that follows; empty: that was the last
}

// Choice is one of several ways of looking at a list.
type Choice struct {
	Name, Query string
	Chosen      bool
}

// GameListOf makes the list of what the API answered to a query, whose keys are the API's.
func GameListOf(page gamelist.Page, asked url.Values) GameList {
	list := GameList{Total: int64(page.Total)}
	with := func(key, value string) string {
		q := url.Values{"sort": asked["sort"], "state": asked["state"], key: {value}}
		if q.Get(key) == "" {
			q.Del(key)
		}
		return "?" + q.Encode()
	}
	for _, state := range append([]gamelist.State{""}, gamelist.States()...) {
		list.States = append(list.States, Choice{cmp.Or(string(state), "all"), with("state", string(state)),
			string(state) == asked.Get("state")})
	}
	for _, order := range []struct{ name, sort string }{{"newest", ""}, {"best", gamelist.ByReward},
		{"worst", "-" + gamelist.ByReward}, {"longest", gamelist.ByLength}, {"slowest", gamelist.ByTime},
		{"failed", gamelist.ByFailure}} {
		list.Orders = append(list.Orders, Choice{order.name, with("sort", order.sort), order.sort == asked.Get("sort")})
	}
	for _, g := range page.Games {
		row := gameRow(g)
		if g.Kept {
			row.Href = fmt.Sprintf("games/%d/%d", g.Group, g.Sample)
		}
		list.Games = append(list.Games, row)
	}
	if page.Next != "" {
		list.Next = with("after", page.Next)
	}
	return list
}
