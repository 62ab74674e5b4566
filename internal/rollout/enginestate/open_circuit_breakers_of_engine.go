package enginestate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Breaker is why a worker gives an engine no requests for now.
type Breaker struct {
	Engine rollout.EngineID `json:"engine"`
	Run    rollout.RunName  `json:"run,omitempty"` // whose requests; empty: every run's
	Reason string           `json:"reason"`
	// Since is when it opened. At NextProbe the engine is probed; zero: that is under way, or one request tries.
	Since     time.Time `json:"since"`
	NextProbe time.Time `json:"next_probe,omitzero"`
}

// Closure is what the workers' breakers say of one engine: Workers of OfWorkers, the live ones, do not dispatch to it.
type Closure struct {
	Run       rollout.RunName `json:"run,omitempty"` // whose requests; empty: every run's
	Reason    string          `json:"reason"`        // of the breaker that has been open for longest
	Since     time.Time       `json:"since"`
	NextProbe time.Time       `json:"next_probe,omitzero"`
	Workers   int             `json:"workers"`
	OfWorkers int             `json:"of_workers"`
}

// Closures is what live workers' breakers say of an engine: of every run first, then by run.
func Closures(engine rollout.EngineID, workers []Worker) []Closure {
	var found []Closure
	alive := 0
	for _, w := range workers {
		if w.State != WorkerAlive {
			continue
		}
		alive++
		for _, b := range w.Breakers {
			if b.Engine == engine {
				found = append(found, Closure{b.Run, b.Reason, b.Since, b.NextProbe, 1, 0})
			}
		}
	}
	slices.SortFunc(found, func(a, b Closure) int { return cmp.Or(cmp.Compare(a.Run, b.Run), a.Since.Compare(b.Since)) })
	var joined []Closure
	for _, c := range found {
		if n := len(joined); n > 0 && joined[n-1].Run == c.Run {
			joined[n-1].Workers++
			continue
		}
		joined = append(joined, c)
	}
	for i := range joined {
		joined[i].OfWorkers = alive
	}
	return joined
}

// Text says it in words, as of now.
func (c Closure) Text(now time.Time) string {
	whose := ""
	if c.Run != "" {
		whose = fmt.Sprintf(" for run %s", c.Run)
	}
	next := "one request tries"
	if !c.NextProbe.IsZero() {
		next = fmt.Sprintf("next probe in %.0f s", max(0, c.NextProbe.Sub(now).Seconds()))
	}
	return fmt.Sprintf("not dispatched to%s by %d of %d workers: %s; %s", whose, c.Workers, c.OfWorkers, c.Reason, next)
}
