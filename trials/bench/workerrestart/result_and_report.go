package workerrestart

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// Result is what restarts have cost.
type Result struct {
	Config Config `json:"-"`
	processortime.Machine
	Rows []Row `json:"rows"`
}

// Row is one restart.
type Row struct {
	Restart string  `json:"restart"`
	Before  float64 `json:"slots_in_use_before"` // of all slots of the engines, while a window passes
	During  float64 `json:"slots_in_use_during"` // the same from the worker's end on
	Ratio   float64 `json:"ratio"`
	Most    int     `json:"most_in_flight_at_one_engine"`
}

// WriteText writes the figures for people.
func (r Result) WriteText(w io.Writer) error {
	c := r.Config
	fmt.Fprintf(w, "Two workers with more to do than %d engines of %d slots can, %v an answer; one is restarted.\n",
		benchservice.Engines, c.Limit, c.After)
	fmt.Fprintf(w, "%s\n\n", r.Machine)
	t := table.New(table.Left("ONE WORKER IS"), table.Right("SLOTS IN USE BEFORE"),
		table.Right(fmt.Sprintf("IN THE %v FROM THEN ON", c.Window)), table.Right("RATIO"), table.Right("MOST AT ONE ENGINE"))
	for _, row := range r.Rows {
		percent := func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
		t.Row(row.Restart, percent(row.Before), percent(row.During), percent(row.Ratio),
			fmt.Sprintf("%d of %d", row.Most, c.Limit))
	}
	return t.Write(w, 0)
}
