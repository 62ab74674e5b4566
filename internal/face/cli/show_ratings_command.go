package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis/runratings"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
)

func (s *session) ratingsCommand() *cobra.Command {
	var players int
	cmd := s.onRun("ratings RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if players < 2 || players > runratings.MostPlayers {
				return Usage("--players %d: from 2 to %d", players, runratings.MostPlayers)
			}
			query := url.Values{"players": {strconv.Itoa(players)}}
			r, a, err := apiclient.Get[runratings.Ratings](ctx, c.Client, apiclient.RunPath(run)+"/ratings?"+query.Encode())
			if err != nil {
				return err
			}
			for _, note := range r.Notes {
				s.Say("note: %s", note)
			}
			if s.format == "csv" {
				return s.writeMeetingsCSV(r.Meetings)
			}
			return s.show(a.Body, func() error { return s.writeRatings(r) })
		})
	cmd.Annotations = map[string]string{formats: "csv"}
	const fitScreen = 12
	cmd.Flags().IntVar(&players, "players", fitScreen, "at most so many, neighbouring versions as one")
	return cmd
}

func (s *session) writeRatings(r runratings.Ratings) error {
	if len(r.Players) == 0 {
		return nil
	}
	columns := []table.Column{table.Left("PLAYER"), table.Right("GAMES"), table.Right("POINTS ± 95 %")}
	for _, p := range r.Players {
		columns = append(columns, table.Right("> "+p.Name))
	}
	t := table.New(columns...)
	for _, p := range tablerow.RowsOfRatings(r) {
		row := []string{p.Name, p.Games, p.Points}
		for _, cell := range p.Shares {
			row = append(row, cell.Text)
		}
		t.Row(row...)
	}
	if err := s.write(t); err != nil {
		return err
	}
	if len(r.Places) > 0 {
		t = table.New(table.Left("PLACE"), table.Right("GAMES"), table.Right("POINTS ± 95 %"))
		for _, p := range r.Places {
			t.Row(p.Name, strconv.Itoa(p.Games), tablerow.Points(p))
		}
		fmt.Fprintln(s.Stdout)
		if err := s.write(t); err != nil {
			return err
		}
	}
	for _, cycle := range r.Cycles {
		fmt.Fprintln(s.Stdout, "cycle: "+tablerow.CycleText(cycle))
	}
	return nil
}

func (s *session) writeMeetingsCSV(meetings []runratings.Meeting) error {
	w := csv.NewWriter(s.Stdout)
	_ = w.Write([]string{"player", "opponent", "games", "score"}) // Flush tells
	for _, m := range meetings {
		_ = w.Write([]string{m.Player, m.Opponent, strconv.Itoa(m.Games), strconv.FormatFloat(m.Score, 'f', -1, 64)})
	}
	w.Flush()
	return w.Error()
}
