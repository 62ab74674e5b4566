package sim

import (
	_ "embed"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout/demo"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// sections is the rows of the keys that a setup has beside a spec's.
var sections = settings.ReadTable(ownKeys)

//go:embed setup_keys.json
var ownKeys []byte

// Table is every key of a setup's file: those of a run spec, then those of the setup's own sections.
func Table() settings.Table {
	runs := spec.Table()
	hints := maps.Clone(runs.Hints)
	maps.Copy(hints, sections.Hints)
	return settings.Table{Keys: slices.Concat(runs.Keys, demo.Keys.Keys, sections.Keys), Hints: hints}
}

// Schema is the JSON schema of setups, for editors.
func Schema() []byte {
	defaults := DefaultSetup()
	return Table().Schema("Millrace simulation setup", &defaults)
}
