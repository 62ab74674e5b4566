// Package workerconfig is what a worker is told by the service's configuration. Package config reads it, and has the
// rows of its keys.
package workerconfig

import (
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
)

// Config is a worker's part of the service's configuration.
type Config struct {
	connections.Config
	Retention     rollout.Duration `json:"retention"`
	RetentionRuns int              `json:"retention_runs"`
	Worker        Worker           `json:"worker"`
	EnginesFrom   string           `json:"engines_from"`
	Scaling       *Scaling         `json:"-"` // nil: the fleet is not scaled
}

// Worker bounds one worker process.
type Worker struct {
	Games         int    `json:"games"`
	DispatchQueue int    `json:"dispatch_queue"`
	Preflight     string `json:"preflight"` // a replaycheck.Rule
	Listen        string `json:"listen"`
	DispatchLog   string `json:"dispatch_log"`
}

// DefaultListen is where a worker answers probes if nobody says anything.
const DefaultListen = "127.0.0.1:8701"

// Scaling is how the service scales its fleet. Without it the fleet is what operators and lists make it.
type Scaling struct {
	Provider string `json:"provider"` // what gets engines and gives them back
	scaling.Config
	Window rollout.Duration `json:"window"`
}
