package pageview

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/diagnosis/runratings"
	"github.com/millrace/millrace/internal/face/tablerow"
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
	tablerow.RatingRow
	Cells []HeatCell
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
	table := &Ratings{}
	for _, p := range tablerow.RowsOfRatings(rated) {
		row := RatingRow{RatingRow: p}
		for _, cell := range p.Shares {
			row.Cells = append(row.Cells, heatOf(cell))
		}
		table.Players = append(table.Players, row)
	}
	for _, cycle := range rated.Cycles {
		table.Cycles = append(table.Cycles, tablerow.CycleText(cycle))
	}
	return table
}

func heatOf(cell tablerow.ShareCell) HeatCell {
	if cell.Text == "" {
		return HeatCell{}
	}
	shade, side := int(math.Round(math.Abs(cell.Share-0.5)*6)), "won" // from an even share to all games
	if cell.Share < 0.5 {
		side = "lost"
	}
	return HeatCell{cell.Text, fmt.Sprintf("%s%d", side, shade)}
}
