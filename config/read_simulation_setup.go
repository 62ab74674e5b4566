package config

import (
	"github.com/millrace/millrace/internal/settings"
	"github.com/millrace/millrace/internal/sim"
	"github.com/millrace/millrace/internal/spec"
)

// ReadSetup reads what a simulation is made of from YAML or JSON: a run spec with the sections of a setup, or without
// them. Assignments such as buffer.depth=4 take the place of what the file says. Its error is Faults: everything that
// is wrong, with places in the file called name. What the file says nothing of is assumed, and reported. Open, if
// given, opens what a setup without faults refers to, and puts it there.
func ReadSetup(
	name string, data []byte, assignments []string, env Environments, open func(*sim.Setup) settings.Faults,
) (sim.Setup, []sim.Assumption, error) {
	read := sim.DefaultSetup()
	r := &reader{file: name, table: sim.Table()}
	r.assign(assignments)
	r.read(data, &read)
	if r.unread() {
		return sim.Setup{}, nil, r.faults.err()
	}
	given := r.reading().Given
	spec.Complete(&read.Spec, given)
	assumed := read.Complete(given)
	r.add(spec.Validate(read.Spec, r.reading()))
	r.add(read.Faults(r.reading()))
	r.checkEnvironment(&read.Environment, env)
	if len(r.faults) == 0 && open != nil {
		r.add(open(&read))
	}
	if err := r.faults.err(); err != nil {
		return sim.Setup{}, nil, err
	}
	return read, assumed, nil
}
