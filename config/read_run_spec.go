package config

import (
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/spec"
)

// ReadSpec reads a run spec from YAML or JSON. Its error is Faults: everything that is wrong, with places in the
// file called name.
func ReadSpec(name string, data []byte, env Environments) (rollout.Spec, error) {
	read := spec.Default()
	r := &reader{file: name, table: spec.Table()}
	r.read(data, &read)
	if r.unread() {
		return rollout.Spec{}, r.faults.err()
	}
	spec.Complete(&read, r.reading().Given)
	r.add(spec.Validate(read, r.reading()))
	r.checkEnvironment(&read.Environment, env)
	if err := r.faults.err(); err != nil {
		return rollout.Spec{}, err
	}
	return read, nil
}
