package spec

import (
	_ "embed"

	"github.com/millrace/millrace/internal/kit/settings"
)

// Bounds of a run, beside those of its keys. Every game of a run carries the names of its fixed policies, through
// Temporal and in each worker, and every engine loads them.
const (
	maxModelBytes = 256
	maxPolicies   = 64
)

// keys is the table: one row for every key of a run spec. A default is part of what a spec without the key means and
// never changes: give a key another name instead.
var keys = settings.ReadTable(keysFile)

//go:embed run_keys.json
var keysFile []byte
