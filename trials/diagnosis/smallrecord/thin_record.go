// Package smallrecord makes the records of runs small enough to be committed.
package smallrecord

import (
	"fmt"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Thin leaves out what neither calibration nor diagnosis reads: who called the API, and all but one of so many samples
// of each source.
func Thin(r *runrecord.Record, keepOneOf int) {
	type source struct {
		kind   string
		run    rollout.RunName
		engine rollout.EngineID
	}
	seen := map[source]int{}
	kept := make(runrecord.Events, 0, len(r.Events))
	for _, e := range r.Events {
		if _, audit := e.Body.(telemetry.Audit); audit {
			continue
		}
		if e.Droppable() {
			s := source{e.Kind(), e.Run, e.Engine}
			seen[s]++
			if (seen[s]-1)%max(keepOneOf, 1) != 0 {
				continue
			}
		}
		kept = append(kept, e)
	}
	if len(kept) < len(r.Events) && keepOneOf > 1 {
		r.Gaps = append(r.Gaps, fmt.Sprintf("one of %d samples was kept when the record was made smaller", keepOneOf))
	}
	r.Events = kept
}
