package tablerow

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis/rating"
	"github.com/millrace/millrace/internal/diagnosis/runratings"
)

// RatingRow is the cells of a player, with one for each of the players in their order.
type RatingRow struct {
	Name, Games, Points string
	Shares              []ShareCell
}

// ShareCell is the share of the games that a player has ended before another, in percent. Its text is empty where the
// two never met.
type ShareCell struct {
	Text  string
	Share float64
}

// RowsOfRatings makes the rows of a run's players.
func RowsOfRatings(r runratings.Ratings) []RatingRow {
	met := map[[2]string]ShareCell{}
	for _, m := range r.Meetings {
		met[[2]string{m.Player, m.Opponent}] = shareCell(m.Score)
		met[[2]string{m.Opponent, m.Player}] = shareCell(1 - m.Score)
	}
	var rows []RatingRow
	for _, p := range r.Players {
		row := RatingRow{Name: p.Name, Games: fmt.Sprint(p.Games), Points: Points(p)}
		for _, other := range r.Players {
			row.Shares = append(row.Shares, met[[2]string{p.Name, other.Name}])
		}
		rows = append(rows, row)
	}
	return rows
}

func shareCell(share float64) ShareCell { return ShareCell{fmt.Sprintf("%.0f", 100*share), share} }

// Points is a rating with half its interval; the anchor has none.
func Points(r rating.Rating) string {
	if r.Half == 0 {
		return fmt.Sprintf("%.0f", r.Points)
	}
	return fmt.Sprintf("%.0f ± %.0f", r.Points, r.Half)
}

// CycleText is players who each beat the next, and the last the first.
func CycleText(cycle []string) string { return strings.Join(cycle, " beats ") + " beats " + cycle[0] }
