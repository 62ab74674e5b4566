package turncost

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/processortime"
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

// Result is what turns have cost.
type Result struct {
	Config Config `json:"-"`
	processortime.Machine
	RedisVersion string             `json:"redis_version"`                     // empty: embedded, not measured
	Idle         map[string]float64 `json:"idle_ms_per_s"`                     // of each process while there is nothing to do
	Waiting      map[string]float64 `json:"waiting_claims_ms_per_s,omitempty"` // the same while claims wait
	Rows         []Row              `json:"rows"`
}

// Row is games of one length.
type Row struct {
	Phases  int     `json:"phases"`
	Games   int     `json:"games"`
	Turns   int     `json:"turns"`
	WallSec float64 `json:"wall_s"`
	// Processor time of each process from the start of the run until its last group was ready.
	CPUSec map[string]float64 `json:"cpu_s"`
	TurnUs map[string]float64 `json:"us_per_turn"`
	GameMs map[string]float64 `json:"ms_per_game"`
	Parts  []Part             `json:"worker_parts"`
	// Redis's own counters.
	CommandsPerTurn float64 `json:"redis_commands_per_turn"`
	InPerTurn       float64 `json:"redis_input_bytes_per_turn"`
	OutPerTurn      float64 `json:"redis_output_bytes_per_turn"`
	Peak            float64 `json:"redis_memory_peak_bytes"` // beyond what it had before
	Kept            float64 `json:"redis_memory_kept_bytes"` // when all groups were ready
}

// fill works out the figures.
func (r *Row) fill(before, now counters, samples []sample) {
	turns := float64(r.Turns)
	r.CPUSec, r.TurnUs, r.GameMs = since(before.cpu, now.cpu), map[string]float64{}, map[string]float64{}
	for name, sec := range r.CPUSec {
		r.TurnUs[name] = sec * 1e6 / turns
		r.GameMs[name] = sec * 1e3 / float64(r.Games)
	}
	told := since(before.redis, now.redis)
	r.CommandsPerTurn = told["total_commands_processed"] / turns
	r.InPerTurn, r.OutPerTurn = told["total_net_input_bytes"]/turns, told["total_net_output_bytes"]/turns
	r.Kept = told["used_memory"]
	r.Parts = divide(samples)
	for i := range r.Parts {
		p := &r.Parts[i]
		p.TurnUs = p.Share * r.TurnUs[Worker]
		for kind, sec := range p.Kinds {
			p.Kinds[kind] = p.TurnUs * sec / p.Sec
		}
	}
}

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
