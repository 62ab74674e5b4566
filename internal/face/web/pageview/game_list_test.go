package pageview

import (
	"net/url"
	"testing"

	"github.com/millrace/millrace/internal/game/gamelist"
)

// A link of the list of games keeps what else was asked for, and begins at its first page.
func TestGameListOf(t *testing.T) {
	t.Parallel()
	games := []gamelist.Game{{Group: 4, Sample: 2, Kept: true}, {Group: 3}}
	asked := url.Values{"sort": {"-reward"}, "state": {"failed"}, "after": {"9/0"}, "limit": {"50"}}
	list := GameListOf(gamelist.Page{Total: 7, Next: "3/1", Games: games}, asked)
	for _, of := range [][]Choice{list.States, list.Orders} {
		chosen := 0
		for _, c := range of {
			if c.Chosen {
				chosen++
				if c.Query != "?sort=-reward&state=failed" {
					t.Errorf("what is chosen, %s, leads to %s", c.Name, c.Query)
				}
			}
		}
		if chosen != 1 {
			t.Errorf("%d of %v are chosen", chosen, of)
		}
	}
	if all := list.States[0]; all.Query != "?sort=-reward" || list.Orders[0].Query != "?state=failed" {
		t.Errorf("all: %s, newest: %s", all.Query, list.Orders[0].Query)
	}
	if list.Next != "?after=3%2F1&sort=-reward&state=failed" || list.Games[0].Href != "games/4/2" ||
		list.Games[1].Href != "" {
		t.Errorf("next %s, games %+v", list.Next, list.Games)
	}
}
