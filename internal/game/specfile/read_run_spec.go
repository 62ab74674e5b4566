// Package specfile reads run specs that somebody has written, in YAML or JSON, options of their environments included.
// Start reading at Read.
package specfile

import (
	"slices"

	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"
	"github.com/millrace/millrace/internal/rollout/demo"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// File is what a run's file says: the spec, and what millrace dev simulates around the run.
type File struct {
	runspec.Spec
	Demo demo.Section `json:"demo,omitzero"`
}

var table = settings.Table{Keys: slices.Concat(spec.Table().Keys, demo.Keys.Keys), Hints: spec.Table().Hints}

// Schema is the JSON schema of run specs' files, for editors.
func Schema() []byte {
	defaults := empty()
	return table.Schema("Millrace run spec", &defaults)
}

// empty is what a file says that says nothing.
func empty() File {
	f := File{Spec: spec.Default()}
	demo.Keys.SetDefaults(&f)
	return f
}

// Read reads a run spec, and checks that the fixed policies which its environment names are among its own. Its error is
// settings.Faults: everything that is wrong, with places in the file called name.
func Read(name string, data []byte) (File, error) {
	read, err := ReadFor(environments.ValidateOptions(), name, data)
	if err != nil {
		return read, err
	}
	return read, environments.CheckOpponents(name, read.Spec)
}

// ReadFor is Read for some environments, whatever policies they name.
func ReadFor(env Environments, name string, data []byte) (File, error) {
	read := empty()
	d := document.Open(table, name, data, &read)
	Judge(d, &read.Spec, env)
	if d.Readable() {
		d.Add(demo.Faults(&read, d.Reading())...)
	}
	if err := d.Err(); err != nil {
		return File{}, err
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
