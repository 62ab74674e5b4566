package fleet_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

type usageByEngine = map[rollout.EngineID]rollout.Usage

// answered makes requests one after the other, and returns what the good answers used.
func answered(t *testing.T, client *vllm.Client, requests int) rollout.Usage {
	t.Helper()
	models, err := client.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var used rollout.Usage
	for i := range requests {
		answer, err := client.Complete(t.Context(), rollout.Request{
			ID: fmt.Sprint("q", i), Model: models[0].ID, Prompt: fmt.Sprintf("question %d of many, answered at length:", i),
			Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 16}, Seed: int64(i),
			Timeout: rollout.Duration(time.Minute),
		})
		if err != nil {
			t.Fatal(err)
		}
		used = used.Add(rollout.Usage{
			Requests: 1, InputTokens: int64(len(answer.PromptTokenIDs)), OutputTokens: int64(len(answer.TokenIDs)),
			QueueSec: 0.25,
		})
	}
	return used
}

// TestUsageIsCompared goes through a simulated engine's own counters, canaries included: they agree with the
// workers' counts to the token, also when a worker has gone, until somebody else uses the engine.
func TestUsageIsCompared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		engine, client := simulated(t, nil)
		r := newRig(t)
		r.clients.Store("http://sim:8000", client)
		if _, err := r.registry.Add(ctx, enginestate.Engine{ID: "sim", URL: "http://sim:8000"}); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "sim", "ready", in(enginestate.EngineReady))
		tell := func(worker string, before, now rollout.Usage) {
			if err := r.workers.ReportUsage(ctx, worker, usageByEngine{"sim": before}, usageByEngine{"sim": now}); err != nil {
				t.Fatal(err)
			}
		}
		agree := func(e enginestate.Engine) bool {
			return e.Load.UsageWindowSec > 0 && e.Load.UsageInputError == 0 && e.Load.UsageOutputError == 0
		}

		ours := answered(t, client, 10)
		tell("w1", rollout.Usage{}, ours)
		r.within(3*time.Second, "sim", "seen with its queue time",
			func(e enginestate.Engine) bool { return e.Load.QueueSec == 0.25 })
		time.Sleep(30 * time.Second) // canaries come and go
		r.within(0, "sim", "in agreement", agree)

		if err := r.workers.Leave(ctx, "w1"); err != nil {
			t.Fatal(err)
		}
		tell("w2", rollout.Usage{}, answered(t, client, 10))
		time.Sleep(3 * time.Second)
		r.within(0, "sim", "in agreement after a worker left", agree)

		answered(t, client, 20) // nobody tells of these
		time.Sleep(3 * time.Second)
		about := func(share, want float64) bool { return math.Abs(share-want) < 0.1 }
		r.within(0, "sim", "half unexplained", func(e enginestate.Engine) bool {
			return about(e.Load.UsageInputError, 0.5) && about(e.Load.UsageOutputError, 0.5)
		})

		if err := engine.Restart(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "sim", "ready again, with its check begun again", func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineReady && agree(e)
		})
	})
}
