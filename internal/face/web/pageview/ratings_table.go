package pageview

import (
	"fmt"
	"math"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis/runratings"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/rollout"
)

// Ratings is who is how strong in a run, and who beats whom, by the games of its steps.
type Ratings struct {
	Players []RatingRow
	Cycles  []string
}

// RatingRow is one player, with a cell for each of the players in their order.
type RatingRow struct {
	Name, Points string
	Games        int
	Cells        []HeatCell
}

// HeatCell is a share of games won, in percent, and a class that colours it; empty where two never met.
type HeatCell struct{ Text, Class string }

// mostRated bounds the players of the page; the command and the API have more.
const mostRated = 16

// ratingsOf is nil where no game between different players is known.
func ratingsOf(steps []runhistory.Step) *Ratings {
	orders := map[rollout.Order]int{}
	for i := range steps {
		for _, results := range steps[i].Curve.Results {
			for order, n := range results.Orders {
				orders[order] += n
			}
		}
	}
	rated, err := runratings.Of("", orders, mostRated)
	if err != nil || len(rated.Players) == 0 {
		return nil
	}
	scores := map[[2]string]float64{}
	for _, m := range rated.Meetings {
		scores[[2]string{m.Player, m.Opponent}] = m.Score
		scores[[2]string{m.Opponent, m.Player}] = 1 - m.Score
	}
	table := &Ratings{}
	for _, p := range rated.Players {
		row := RatingRow{Name: p.Name, Games: p.Games, Points: fmt.Sprintf("%.0f ± %.0f", p.Points, p.Half)}
		for _, other := range rated.Players {
			row.Cells = append(row.Cells, heatOf(scores, p.Name, other.Name))
		}
		table.Players = append(table.Players, row)
	}
	for _, cycle := range rated.Cycles {
		table.Cycles = append(table.Cycles, strings.Join(append(cycle, cycle[0]), " beats "))
	}
	return table
}

func heatOf(scores map[[2]string]float64, player, other string) HeatCell {
	score, met := scores[[2]string{player, other}]
	if !met {
		return HeatCell{}
	}
	shade, side := int(math.Round(math.Abs(score-0.5)*6)), "won" // from an even score to all games
	if score < 0.5 {
		side = "lost"
	}
	return HeatCell{fmt.Sprintf("%.0f", 100*score), fmt.Sprintf("%s%d", side, shade)}
}
