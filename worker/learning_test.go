package worker

import (
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// TestRewardRises: a policy learns to win against the random opponent, through Temporal, Redis, HTTP and adapters: each
// version is served by two engines from the adapter that the trainer wrote. The probabilities that engines report are
// those that the trainer finds. Controls, which learn nothing, are played in the trainer's own tests.
func TestRewardRises(t *testing.T) {
	const (
		steps, groups, samples = 12, 8, 8
		games                  = groups * samples
		untrained              = 0.66 // reward, measured by demotrainer's TestLearnsAndControlsDoNot
		widest                 = 0.5  // standard deviation of what lies between 0 and 1
	)
	d := newDeployment(t)
	cfg := enginesim.DefaultConfig()
	cfg.Speed, cfg.Policy = 100, true
	d.write("engines", d.engineWith(cfg)+"\n"+d.engineWith(cfg)+"\n")
	d.inProcess()
	spec := d.spec(d.run, servedModel, steps)
	spec.Environment.Options = json.RawMessage(`{"opponent": "` + tictactoe.RandomOpponent + `"}`)
	spec.Group = runspec.GroupSpec{Samples: samples, MinSamples: samples}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, groups
	spec.Adapters.PathPrefix = filepath.Join(d.dir, "adapters")
	d.start(spec)
	if err := demotrainer.Run(d.ctx, demotrainer.Config{Server: "http://" + d.cfg.Listen, Run: string(d.run), Learn: true,
		LearningRate: 2 * demotrainer.DefaultLearningRate, HTTPClient: http.DefaultClient, Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	records, err := d.conns.Buffer.Steps(d.ctx, d.run, 0, steps)
	if err != nil || len(records) != steps {
		t.Fatalf("%d steps: %v", len(records), err)
	}
	var rewards []float64
	for i := range records {
		m := records[i].Trainer.Metrics
		rewards = append(rewards, m["reward_mean"])
		if off, known := m["fresh_ratio_error"]; !known || off > 1e-3 {
			t.Errorf("step %d: ratio of trainer and engine at version distance 0 is off 1 by %g", i, off)
		}
	}
	const last = 4
	sum := 0.0
	for _, r := range rewards[steps-last:] {
		sum += r
	}
	t.Logf("rewards %.3f", rewards)
	if least := untrained + 3*widest/math.Sqrt(last*games); sum/last < least {
		t.Errorf("the last %d steps have a reward of %.3f, want %.3f or more", last, sum/last, least)
	}
}
