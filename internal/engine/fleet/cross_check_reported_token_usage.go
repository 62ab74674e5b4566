package fleet

import (
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// usageCheck compares an engine's own counters with the usage that workers reported, since the check began.
type usageCheck struct {
	first, latest usageReading
}

// usageReading is both sides at one moment.
type usageReading struct {
	at       time.Time
	counted  vllm.Sample
	reported rollout.Usage
}

// add takes in the newest reading. Counters that fell belong to an engine that was restarted: the check begins again.
func (c *usageCheck) add(r usageReading) {
	last := &c.latest.counted
	restarted := r.counted.PromptTokens < last.PromptTokens || r.counted.GenerationTokens < last.GenerationTokens
	if c.first.at.IsZero() || restarted {
		*c = usageCheck{first: r, latest: r}
		return
	}
	c.latest = r
}

// writeTo writes into load how far the two sides differ.
func (c *usageCheck) writeTo(load *enginestate.EngineLoad) {
	a, b := c.first, c.latest
	load.UsageWindowSec = b.at.Sub(a.at).Seconds()
	load.UsageInputError = unexplained(
		b.counted.PromptTokens-a.counted.PromptTokens, float64(b.reported.InputTokens-a.reported.InputTokens))
	load.UsageOutputError = unexplained(
		b.counted.GenerationTokens-a.counted.GenerationTokens, float64(b.reported.OutputTokens-a.reported.OutputTokens))
}

// meanQueue is the mean wait in the dispatch queues of the requests reported between two moments; 0 where there were
// none.
func meanQueue(before, after rollout.Usage) float64 {
	if after.Requests <= before.Requests {
		return 0
	}
	return max(0, after.QueueSec-before.QueueSec) / float64(after.Requests-before.Requests)
}

// unexplained is the difference between an engine's count and the workers' reports, as a share of the larger. It goes
// from 1, where the workers know of none of the engine's tokens, through 0 to -1, where the engine counted none of
// theirs.
func unexplained(counted, reported float64) float64 {
	larger := max(counted, reported)
	if larger <= 0 {
		return 0
	}
	return (counted - reported) / larger
}
