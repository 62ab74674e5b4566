package bufferload

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
)

// WriteText writes a table of the kinds of Redis, one of what the first of them did, and what their words mean.
func (r Result) WriteText(w io.Writer) error {
	if err := r.kinds().Write(w, 0); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := r.nodes().Write(w, 0); err != nil {
		return err
	}
	for _, row := range r.Rows {
		fmt.Fprintf(w, "\n%s: time inside of commands, by Redis' own clock\n\n", row.Redis)
		if err := row.uses().Write(w, 0); err != nil {
			return err
		}
		if row.Masters == 1 {
			break // other kinds run the same commands
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

func (r Result) kinds() *table.Table {
	t := table.New(table.Left("REDIS"), table.Right("TURNS/s"), table.Right("IDLE ms/s"), table.Right("µs/TURN"),
		table.Right("WITH LOG"), table.Right("COMMANDS/TURN"), table.Right("IN B/TURN"), table.Right("OUT B/TURN"),
		table.Right("FULL AT TURNS/s"), table.Right("ENGINES"), table.Right("ACCOUNT"), table.Right("ONE RUN TURNS/s"))
	for _, row := range r.Rows {
		t.Row(row.Redis, fmt.Sprintf("%.0f", float64(row.Turns)/max(row.WallSec, 1e-9)), fmt.Sprintf("%.1f", row.IdleMs),
			fmt.Sprintf("%.1f", row.TurnUs), fmt.Sprintf("%.1f", row.WholeTurnUs), fmt.Sprintf("%.1f", row.Commands),
			fmt.Sprintf("%.0f", row.In), fmt.Sprintf("%.0f", row.Out), fmt.Sprintf("%.0f", row.Ceiling),
			fmt.Sprintf("%.0f", row.Engines), units.Percent(row.AccountShare), fmt.Sprintf("%.0f", row.RunCeiling))
	}
	return t
}

func (r Result) nodes() *table.Table {
	t := table.New(table.Left("NODE"), table.Right("µs/TURN"), table.Right("SHARE"), table.Right("MEMORY"))
	for _, row := range r.Rows {
		for i, n := range row.Nodes {
			t.Row(fmt.Sprintf("%s: %d", row.Redis, i), fmt.Sprintf("%.1f", n.TurnUs), units.Percent(n.Share),
				units.Bytes(int64(n.Memory)))
		}
	}
	return t
}

// usesShown is how many kinds of commands are listed.
const usesShown = 16

func (r Row) uses() *table.Table {
	t := table.New(table.Left("COMMAND"), table.Left("KEYS"), table.Right("µs/TURN"), table.Right("SHARE"),
		table.Right("µs EACH, MEDIAN"), table.Right("CALLS/1000 TURNS"))
	all := 0.0
	for _, u := range r.Uses {
		all += u.TurnUs
	}
	rest := Use{Name: "others"}
	row := func(u Use) {
		t.Row(u.Name, u.Keys, fmt.Sprintf("%.2f", u.TurnUs), units.Percent(u.TurnUs/max(all, 1e-9)),
			fmt.Sprintf("%.0f", u.CallUs), fmt.Sprintf("%.1f", 1000*float64(u.Calls)/float64(max(1, r.traced))))
	}
	for i, u := range r.Uses {
		if i < usesShown {
			row(u)
			continue
		}
		rest.Calls += u.Calls
		rest.TurnUs += u.TurnUs
	}
	if rest.Calls > 0 {
		rest.CallUs = rest.TurnUs * float64(r.traced) / float64(rest.Calls)
		row(rest)
	}
	return t
}

func (r Result) notes() []string {
	c := r.Config
	notes := []string{"machine   " + r.Machine.String()}
	for _, row := range r.Rows {
		notes = append(notes, fmt.Sprintf("load      %s (Redis %s): %.0f turns per second were asked for, of %d runs; "+
			"%d turns, %d games of %d phases, %d groups of %d, %d steps of %d groups were written in %s, which cost this "+
			"process %s",
			row.Redis, row.Version, c.Rate, c.Runs, row.Turns, row.Games, c.Phases, row.Groups, c.Samples, row.Steps, c.Groups,
			units.Seconds(row.WallSec), units.Seconds(row.GeneratorSec)))
	}
	return append(notes,
		"µs/TURN   processor time of the thread of Redis that executes commands, of all nodes, by INFO; IDLE, what "+
			fmt.Sprintf("%d engines, %d workers and a server use while nothing is played, is not in it", c.Engines, c.Workers),
		"WITH LOG  the same of the whole process and of its children, which write and rewrite the log",
		"FULL AT   the turns per second at which the busiest node's thread uses a core, IDLE included",
		fmt.Sprintf("ENGINES   so many make them with %d requests in flight of %v each", c.InFlight, c.Call),
		"ACCOUNT   the share of commands' time on keys of runs' accounts: those of a run share one slot, so that one node "+
			"has them, however many there are; ONE RUN: the turns per second at which that alone fills a core")
}
