package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/units"
)

// memoryReport is the KV caches as a report has them; nil when they are not known.
func (k *kvUse) memoryReport() *EngineMemoryUse {
	if k.sec == 0 {
		return nil
	}
	return &EngineMemoryUse{Usage: k.share, Running: k.running, Waiting: k.waiting, Limit: k.limit,
		Preemptions: k.preempted, Limits: k.short()}
}

// recomputed is the share of what engines compute that they compute again, because requests were thrown out of their
// memory: the prompt of each, and half of what it answers.
func (k *kvUse) recomputed() float64 { return k.preempted / (1 + k.preempted) }

func (k *kvUse) text() string {
	text := fmt.Sprintf("%s of an engine's is in use by %s running requests, and %s wait inside it",
		units.Percent(k.share), units.Number(k.running), units.Number(k.waiting))
	if k.preempted > 0 {
		text += fmt.Sprintf("; %s preemptions for each request answered", units.Number(k.preempted))
	}
	return text
}
