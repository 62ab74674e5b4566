package sim

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"

	"github.com/millrace/millrace/internal/rollout/demo"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// The kinds of a fleet's events.
const (
	LoseEngine  = "lose"
	DrainEngine = "drain"
	AddEngine   = "add"
	SlowEngine  = "slow"
)

// DefaultProfile is the hardware of a fleet that says nothing of it.
const DefaultProfile = enginemodel.DefaultProfile

//go:embed setup_keys.json
var ownKeys []byte

// sections is the rows of the keys that a setup has beside a spec's.
var sections = settings.Table{
	Keys: keysOf(ownKeys),
	Hints: map[string]string{
		"engines":     "unknown key; did you mean fleet.engines?",
		"fleet.speed": "unknown key; did you mean fleet.time_factor? It is one divided by the speed",
		"fleet.gpu":   "unknown key; did you mean fleet.profile?",
		"profile":     "unknown key here; did you mean fleet.profile?",
	},
}

// keysOf reads rows. A default that is a time is written as one.
func keysOf(rows []byte) (keys []settings.Key) {
	if err := json.Unmarshal(rows, &keys); err != nil {
		panic(err) // It is part of the program.
	}
	for i := range keys {
		text, _ := keys[i].Default.(string)
		if d, err := time.ParseDuration(text); err == nil {
			keys[i].Default = d
		}
	}
	return keys
}

// Table is every key of a setup's file: those of a run spec, then those of the setup's own sections.
func Table() settings.Table {
	runs := spec.Table()
	hints := maps.Clone(runs.Hints)
	maps.Copy(hints, sections.Hints)
	return settings.Table{Keys: slices.Concat(runs.Keys, demo.Keys, sections.Keys), Hints: hints}
}

// DefaultSetup is what a setup's file says where it says nothing, before Complete.
func DefaultSetup() Setup {
	s := Setup{Spec: spec.Default()}
	demo.SetDefaults(&s)
	for _, key := range sections.Keys {
		if key.Default != nil {
			key.SetDefault(&s)
		}
	}
	return s
}

// Schema is the JSON schema of setups, for editors.
func Schema() []byte {
	defaults := DefaultSetup()
	return Table().Schema("Millrace simulation setup", &defaults)
}
