package spec

import (
	"github.com/millrace/millrace/internal/kit/settings"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Read reads a run spec from YAML or JSON. Its error is settings.Faults: everything that is wrong, with places in the
// file called name.
func Read(name string, data []byte, env Environments) (runspec.Spec, error) {
	read := Default()
	d := keys.Open(name, data, &read)
	Judge(d, &read, env)
	if err := d.Err(); err != nil {
		return runspec.Spec{}, err
	}
	return read, nil
}

// Judge completes a spec that was read from a document, and reports everything that is wrong with it there.
func Judge(d *settings.Document, s *runspec.Spec, env Environments) {
	if !d.Readable() {
		return
	}
	Complete(s, d.Given)
	d.Add(Validate(*s, d.Reading())...)
	env.Check(&s.Environment, d)
}
