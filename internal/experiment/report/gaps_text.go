package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/sim/workload"
	"github.com/millrace/millrace/internal/table"
	"github.com/millrace/millrace/internal/units"
)

// windows is the flush windows of which arrivals are asked how often they would merge calls.
var windows = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
	3 * time.Second, 5 * time.Second, 10 * time.Second}

// honestRule is what follows from all of it.
const honestRule = `The rule that costs nothing: when an engine is idle and something waits, dispatch at once; when all are busy, a queue forms by itself
and fills the next batch, whatever the window. A window only adds waiting while an engine is idle: about itself to every batch that it does
not fill. It gains only if the next call comes within it, and one larger batch takes less time than two.`

// WriteGaps writes what the gaps between calls say of flush windows.
func WriteGaps(w io.Writer, t workload.Trace) error {
	g := workload.GapsOf(t)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d calls with %d prompts\n", t.Name, g.Calls, g.Requests)
	if g.Calls < 2 {
		fmt.Fprintf(&b, "one call has no gaps\n\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "gaps: mean %s, median %s, least %s, longest %s, coefficient of variation %.2f (1: calls are "+
		"independent; more: they come in bursts)\n\n", units.Seconds(g.Mean.Seconds()), units.Seconds(g.Median.Seconds()),
		units.Seconds(g.Min.Seconds()), units.Seconds(g.Max.Seconds()), g.CV)
	rows := table.New(table.Right("WINDOW (s)"), table.Right("NEXT CALL WITHIN"),
		table.Right("COST TO A CALL WHEN IDLE (s)"), table.Right("CALLS MERGED PER 100"))
	for _, window := range windows {
		p := g.Within(window)
		rows.Row(units.Number(window.Seconds()), units.Percent(p), units.Number(window.Seconds()), units.Number(100*p))
	}
	if err := rows.Write(&b, 0); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s\n\n", honestRule)
	_, err := io.WriteString(w, b.String())
	return err
}
