package config

import (
	"encoding/json"
	"fmt"

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

// CheckSpec judges a spec that did not come from a file, such as one built by a program.
func CheckSpec(name string, s rollout.Spec, env Environments) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("check run spec: %w", err)
	}
	_, err = ReadSpec(name, data, env)
	return err
}
