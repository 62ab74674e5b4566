package turncost

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// The processes.
const (
	Worker   = "worker"
	Server   = "server"
	Temporal = "temporal"
	Redis    = "redis"
)

// order is how tables list them.
var order = []string{Worker, Temporal, Redis, Server}

// WriteText writes a table of processes, one of the worker's parts for each length, and what their words mean.
func (r Result) WriteText(w io.Writer) error {
	if err := r.processes().Write(w, 0); err != nil {
		return err
	}
	for _, row := range r.Rows {
		fmt.Fprintf(w, "\nThe worker, games of %d phases: microseconds of processor time per turn\n\n", row.Phases)
		if err := row.parts().Write(w, 0); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

func (r Result) processes() *table.Table {
	columns := []table.Column{table.Left("PROCESS"), table.Right("IDLE ms/s")}
	if r.Waiting != nil {
		columns = append(columns, table.Right(fmt.Sprintf("%d CLAIMS WAIT ms/s", r.Config.Waiting)))
	}
	for _, row := range r.Rows {
		columns = append(columns, table.Right(fmt.Sprintf("%d PHASES µs/turn", row.Phases)), table.Right("ms/game"))
	}
	t := table.New(columns...)
	for _, name := range order {
		cells := []string{name}
		rates := []map[string]float64{r.Idle}
		if r.Waiting != nil {
			rates = append(rates, r.Waiting)
		}
		for _, rate := range rates {
			if used, measured := rate[name]; measured {
				cells = append(cells, fmt.Sprintf("%.1f", used))
			} else {
				cells = append(cells, "-")
			}
		}
		for _, row := range r.Rows {
			if _, measured := row.TurnUs[name]; !measured {
				cells = append(cells, "-", "-")
				continue
			}
			cells = append(cells, fmt.Sprintf("%.0f", row.TurnUs[name]), fmt.Sprintf("%.1f", row.GameMs[name]))
		}
		t.Row(cells...)
	}
	return t
}

func (r Row) parts() *table.Table {
	columns := []table.Column{table.Left("PART"), table.Right("ALL"), table.Right("SHARE")}
	names := make([]string, 0, len(kinds)+1)
	for _, k := range kinds {
		names = append(names, k.name)
	}
	names = append(names, restKind)
	for _, name := range names {
		columns = append(columns, table.Right(strings.ToUpper(name)))
	}
	t := table.New(columns...)
	for _, p := range r.Parts {
		cells := []string{p.Name, fmt.Sprintf("%.0f", p.TurnUs), units.Percent(p.Share)}
		for _, name := range names {
			cells = append(cells, fmt.Sprintf("%.0f", p.Kinds[name]))
		}
		t.Row(cells...)
	}
	return t
}

func (r Result) notes() []string {
	where, temporal := ", without AOF", "in memory"
	if r.Config.OnDisk {
		where, temporal = ", appendfsync always", "on disk"
	}
	redis := "real, " + r.RedisVersion + where
	if r.RedisVersion == "" {
		redis = "embedded in this process, because there is no redis-server on the PATH: what it costs is not measured"
	}
	notes := []string{
		"machine   " + r.Machine.String(),
		"redis     " + redis,
		"temporal  dev server, its database " + temporal,
		fmt.Sprintf("engines   %d in this process, which answer after %v; they are in no figure",
			benchservice.Engines, r.Config.After),
		fmt.Sprintf("games     timeouts.heartbeat %v", r.Config.Heartbeat),
	}
	for _, row := range r.Rows {
		notes = append(notes, fmt.Sprintf("played    %d games of %d phases, %d turns, groups of %d, in %s: Redis had %.1f "+
			"commands, %.0f B in and %.0f B out per turn, %s of memory at most and %s at the end",
			row.Games, row.Phases, row.Turns, r.Config.Samples, units.Seconds(row.WallSec), row.CommandsPerTurn, row.InPerTurn,
			row.OutPerTurn, units.Bytes(int64(row.Peak)), units.Bytes(int64(row.Kept))))
	}
	return append(notes,
		"ALL       user and system time of the process, from the start of the run until its last group was ready; of the "+
			"parts: shared out as the worker's CPU profile says",
		"IDLE      the same per second while there is nothing to play; it is in the other figures, too",
		"columns   what a part's time goes to: "+strings.Join(slices.Sorted(maps.Keys(kindNames())), ", "))
}

func kindNames() map[string]bool {
	names := map[string]bool{restKind: true}
	for _, k := range kinds {
		names[k.name] = true
	}
	return names
}
