package telemetry

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Row is an event as one flat row for a table-shaped sink: scalars under snake_case names with their units, and at
// most one level of maps where names are open-ended. The names are a contract with dashboards.
type Row map[string]any

// Flat makes an event a row. Lists are summed up: a sink that wants them reads Encode's JSON.
func Flat(e Event) Row {
	r := Row{}
	e.Body.row(r)
	r["kind"] = e.Kind()
	r["_time"] = e.At.UTC().Format(time.RFC3339Nano)
	r["event_id"] = e.ID()
	r.text("run_id", string(e.Run))
	r.text("engine_id", string(e.Engine))
	return r
}

func (r Row) usage(u rollout.Usage) {
	r["requests"], r["exec_s"], r["dispatch_queue_s"] = u.Requests, u.ExecSec, u.QueueSec
	r["input_tokens"], r["output_tokens"] = u.InputTokens, u.OutputTokens
	r["cached_tokens"], r["repeated_tokens"] = u.CachedTokens, u.RepeatedTokens
}

// text leaves empty texts out.
func (r Row) text(name, value string) {
	if value != "" {
		r[name] = value
	}
}

func longest(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Max(values)
}
