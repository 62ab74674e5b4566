// Package specfile reads run specs that somebody has written, in YAML or JSON, options of their environments included.
// Start reading at Read.
package specfile

import (
	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/kit/settings/document"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// Read reads a run spec, and checks that the fixed policies which its environment names are among its own. Its error is
// settings.Faults: everything that is wrong, with places in the file called name.
func Read(name string, data []byte) (runspec.Spec, error) {
	read, err := ReadFor(environments.ValidateOptions(), name, data)
	if err != nil {
		return read, err
	}
	return read, environments.CheckOpponents(name, read)
}

// ReadFor is Read for some environments, whatever policies they name.
func ReadFor(env Environments, name string, data []byte) (runspec.Spec, error) {
	read := spec.Default()
	d := document.Open(spec.Table(), name, data, &read)
	Judge(d, &read, env)
	if err := d.Err(); err != nil {
		return runspec.Spec{}, err
	}
	return read, nil
}

// Judge completes a spec that was read from a document, and reports everything that is wrong with it there.
func Judge(d *document.Document, s *runspec.Spec, env Environments) {
	if !d.Readable() {
		return
	}
	spec.Complete(s, d.Given)
	d.Add(spec.Validate(*s, d.Reading())...)
	env.check(&s.Environment, d)
}
