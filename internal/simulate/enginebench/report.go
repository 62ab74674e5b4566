package enginebench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/millrace/millrace/internal/kit/table"
)

// crowded is the share of the cores in use from which the machine, and not the engines, may be the limit.
const crowded = 0.85

// MarshalJSON gives the rows as a JSON array, one object per count.
func (r Result) MarshalJSON() ([]byte, error) { return json.Marshal(r.Rows) }

// WriteText writes the rows as a table, then what its words mean.
func (r Result) WriteText(w io.Writer) error {
	t := table.New(table.Right("ENGINES"), table.Right("GAMES/min"), table.Right("IN tok/s"), table.Right("CACHED"),
		table.Right("OUT tok/s"), table.Right("BUSY"),
		table.Right("CLOSED LOOP tok/s"), table.Right("EFFICIENCY"), table.Right("SCALING"), table.Right("STARVED s/step"),
		table.Right("CORES USED"))
	for i, row := range r.Rows {
		t.Row(fmt.Sprint(row.Engines), fmt.Sprintf("%.1f", row.GamesPerMin), fmt.Sprintf("%.0f", row.InputTPS),
			percent(r.CachedShare[i]), fmt.Sprintf("%.0f", row.OutputTPS),
			percent(row.BusyShare), fmt.Sprintf("%.0f", row.ClosedLoopOutputTPS), percent(row.Efficiency),
			percent(row.ScalingEfficiency),
			fmt.Sprintf("%.1f", row.StarvedSecondsPerStep), percent(r.MachineBusy[i]))
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(append(r.Warnings(), r.notes()...), "\n"))
	return err
}

// Warnings says what makes the rows worth less than they look.
func (r Result) Warnings() []string {
	var warnings []string
	for i, busy := range r.MachineBusy {
		if busy > crowded {
			warnings = append(warnings, fmt.Sprintf("WARNING: with %d engines %s of this machine's %d cores were in use: it "+
				"may be the limit, not the engines. "+
				"Use a lower --speed or --concurrency.", r.Rows[i].Engines, percent(busy), r.Cores))
		}
	}
	return warnings
}

func (r Result) notes() []string {
	c := r.Config
	engines := fmt.Sprintf("simulated engines (A100-80GB, Qwen2.5-7B, LoRA) at speed x%g, in this process, behind "+
		"vLLM's HTTP API", c.Speed)
	if len(c.URLs) > 0 {
		engines = "engines at " + strings.Join(c.URLs, " ") + " serving " + r.Model
	}
	return []string{
		fmt.Sprintf("machine      %d cores, %s/%s, %s", r.Cores, runtime.GOOS, runtime.GOARCH, runtime.Version()),
		"engines      " + engines,
		fmt.Sprintf("workload     Diplomacy, groups of %d games of %d years, all powers; %d requests in flight per engine; "+
			"%v measured per count and pass",
			c.Samples, c.Years, c.Concurrency, c.Window),
		"IN, OUT      differences of the engines' token counters over wall time; CACHED: the part of IN found " +
			"in prefix caches",
		"BUSY         share of the time in which an engine computes",
		"CLOSED LOOP  output of the same engines for the same requests, in the same order and as many in flight, sent " +
			"without games or dispatcher",
		"EFFICIENCY   OUT over CLOSED LOOP; SCALING: OUT per engine over that of the first line",
		fmt.Sprintf("STARVED      what a trainer waits per step that needs %d games and trains for %.3g s, its "+
			"buffer drained",
			c.GroupsPerStep*c.Samples, c.TrainStep.Seconds()/c.Speed),
		"CORES USED   by this process, or wanted by it while others held them",
	}
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
