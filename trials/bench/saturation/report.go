package saturation

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
)

// WriteText writes a table of the levels, one of the parts at the best of them, and what their words mean.
func (r Result) WriteText(w io.Writer) error {
	if err := r.levels().Write(w, 0); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := r.shares().Write(w, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

func (r Result) levels() *table.Table {
	t := table.New(table.Right("GAMES"), table.Right("IN PLAY"), table.Right("TURNS/s"), table.Right("CORES USED"),
		table.Right("OF MACHINE"), table.Right("TURNS BY ENGINE"), table.Right("GAMES BY WORKER"))
	for _, l := range r.Levels {
		var turns []float64
		for _, n := range l.TurnsByEngine {
			turns = append(turns, float64(n))
		}
		t.Row(fmt.Sprint(l.Games), fmt.Sprintf("%.0f", l.inPlay()), fmt.Sprintf("%.0f", l.TurnsPerSec),
			fmt.Sprintf("%.2f", l.UsedCores),
			units.Percent(l.UsedCores/float64(max(1, r.Cores))), spread(turns),
			spread(slices.Collect(maps.Values(l.GamesByWorker))))
	}
	return t
}

// spread is the least, the mean and the most of some numbers.
func spread(of []float64) string {
	if len(of) == 0 {
		return "-"
	}
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return fmt.Sprintf("%.0f / %.0f / %.0f", slices.Min(of), sum/float64(len(of)), slices.Max(of))
}

func (r Result) shares() *table.Table {
	c := r.Config
	l := r.best()
	target := float64(c.Engines) * c.perEngine()
	t := table.New(table.Left("PART"), table.Right("PROCESSES"), table.Right("µs/TURN"), table.Right("SHARE"),
		table.Right("BUSIEST, CORES"), table.Right("FULL AT TURNS/s"),
		table.Right(fmt.Sprintf("CORES AT %.0f TURNS/s", target)))
	all := 0.0
	for _, p := range l.parts() {
		all += p.sum
	}
	for _, p := range l.parts() {
		full := "-"
		if p.single && p.max > 0 {
			full = fmt.Sprintf("%.0f", float64(l.Turns)/p.max)
		}
		perTurn := p.sum / float64(l.Turns)
		t.Row(p.name, fmt.Sprint(p.count), fmt.Sprintf("%.0f", 1e6*perTurn), units.Percent(p.sum/max(all, 1e-9)),
			fmt.Sprintf("%.2f", p.max/l.WallSec), full, fmt.Sprintf("%.1f", perTurn*target))
	}
	return t
}

// idle is how much of the machine may be left when it is full.
const idle = 0.15

func (r Result) notes() []string {
	c := r.Config
	best := r.best()
	notes := []string{"machine   " + r.Machine.String()}
	last := r.Levels[len(r.Levels)-1]
	end := "the last level that was asked for; turns per second still grew"
	if len(r.Levels) > 1 && last.TurnsPerSec < (1+little)*r.Levels[len(r.Levels)-2].TurnsPerSec {
		end = fmt.Sprintf("turns per second stopped growing at %d games", last.Games)
	}
	parts := best.parts()
	first := parts[0]
	if first.name == engines { // they are not the service
		first = parts[min(1, len(parts)-1)]
	}
	found, unused := "saturated", 1-best.UsedCores/float64(max(1, r.Cores))
	if unused > idle {
		found = "not full "
	}
	notes = append(notes, fmt.Sprintf(found+" %s: %.0f turns per second with %.2f of %d cores; most of it %s, %s of "+
		"what was used", end, best.TurnsPerSec, best.UsedCores, r.Cores, first.name,
		units.Percent(first.sum/best.UsedCores/best.WallSec)))
	if unused > idle {
		notes = append(notes, "          other processes had the rest of the machine, or something waits: what a part costs "+
			"per turn holds, turns per second do not")
	}
	return append(notes,
		fmt.Sprintf("service   %d workers, a Redis of %d masters without log, Temporal's dev server in memory, a server, a "+
			"trainer that takes %d groups of %d games of %d phases at a time", c.Workers, c.Masters, c.Groups, c.Samples,
			c.Phases),
		fmt.Sprintf("engines   %d in this process, an answer takes %v for each token and %v more for each request in flight",
			c.Engines, stepTime, stepPerRequest),
		"µs/TURN   processor time of all processes of the part, by the kernel's account, at the level with the most turns",
		"FULL AT   the turns per second at which the busiest process of a part that can use one core alone uses all of it",
		fmt.Sprintf("CORES AT  so many %d engines would make with %d requests in flight of %v each", c.Engines, c.InFlight,
			c.Call),
		"GAMES     that the run may have in play; IN PLAY, how many were, on average",
		"BY        engine, by worker: least / mean / most")
}
