package faultsuite

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/serving"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// otherRun is another run's requests: as soon as one is answered, it asks for the next.
type otherRun struct {
	*sim.Control
	random         *virtualtime.Random
	prompt, output int
	games          rollout.GroupSeq
}

// othersAsk has another run keep so many requests in flight, each of so many tokens.
func othersAsk(c *sim.Control, requests, prompt, output int) {
	random := virtualtime.NewRandom(uint64(c.Setup().Seed), "others")
	o := &otherRun{Control: c, random: random, prompt: prompt, output: output}
	for range requests {
		o.ask()
	}
}

func (o *otherRun) ask() {
	o.games++
	factor := math.Exp(0.3*o.random.Normal() - 0.045)
	o.Fleet().Submit(serving.Request{
		Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "other", Seq: o.games}}, Model: o.Setup().Model,
		Prompt: int(factor*float64(o.prompt)) + 1, Output: int(factor*float64(o.output)) + 1, Client: o,
	})
}

// Answered asks for the next.
func (o *otherRun) Answered(time.Duration, uint64, serving.Answer) { o.ask() }
