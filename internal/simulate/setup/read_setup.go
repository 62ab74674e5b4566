// Package setup reads what a simulation is made of, a run spec with sections for engines, trainer and games, from files
// that people write, and simulates runs of every environment. Start reading at Read and Simulator.
package setup

import (
	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/settings/document"
	"github.com/millrace/millrace/internal/rollout/demo"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// Read reads what a simulation is made of from YAML or JSON: a run spec with the sections of a setup, or without them.
// Assignments such as buffer.depth=4 take the place of what the file says. Its error is settings.Faults: everything
// that is wrong, with places in the file called name. What the file says nothing of is assumed, and reported. The
// record whose games a setup plays is read, too.
func Read(name string, data []byte, assignments []string) (sim.Setup, []sim.Assumption, error) {
	read := sim.DefaultSetup()
	d := document.Open(sim.Table(), name, data, &read, assignments...)
	if !d.Readable() {
		return sim.Setup{}, nil, d.Err()
	}
	assumed := read.Complete(d.Given)
	specfile.Judge(d, &read.Spec, environments.ValidateOptions())
	d.Add(demo.Faults(&read, d.Reading())...)
	d.Add(read.Faults(d.Reading())...)
	if d.Err() == nil {
		d.Add(openRecorded(&read)...)
	}
	if err := d.Err(); err != nil {
		return sim.Setup{}, nil, err
	}
	return read, assumed, environments.CheckOpponents(name, read.Spec)
}
