// Package scaledfleet lets the service's scaling machine decide how many engines a simulated run has. Tests and trials
// use it, the product does not: it scales live engines. Start reading at Run.
package scaledfleet

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// Scaling is the machine's configuration and what its engines are like. All of them begin with their cold start, those
// of the beginning, too.
type Scaling struct {
	Config scaling.Config
	// ColdStart is an engine's, by its number, and Life for how long it serves until it is lost; 0: it is not lost.
	ColdStart func(no int) time.Duration
	Life      func(no int) time.Duration
	// Decided, if set, hears of every sample and of what the machine made of it.
	Decided func(scaling.Sample, []scaling.Command)
}

// Scaled is what became of a fleet that was scaled.
type Scaled struct {
	Decisions []scaling.Decision
	Measured  []scaling.Measured
	// EngineSec is the time for which engines were paid: from their start to their loss, or until they were drained.
	EngineSec     float64
	Started, Lost int
	Most          int // alive at once
}

// Run plays a setup whose engines the machine starts and ends.
func Run(ctx context.Context, s sim.Setup, o sim.Options, of Scaling) (sim.Result, Scaled, error) {
	machine, err := scaling.New(of.Config)
	if err != nil {
		return sim.Result{}, Scaled{}, err
	}
	return run(ctx, s, o, &scaler{of: of, machine: machine})
}

func run(ctx context.Context, s sim.Setup, o sim.Options, by *scaler) (sim.Result, Scaled, error) {
	o.Scaler = by
	result, err := sim.Run(ctx, s, o)
	if by.Control == nil {
		return result, Scaled{}, err
	}
	return result, by.scaled(), err
}

// scaled is what became of the fleet until now.
func (s *scaler) scaled() Scaled {
	r := s.result
	for _, e := range s.paid {
		r.EngineSec += (s.Agenda().Now() - e.started).Seconds()
	}
	return r
}
