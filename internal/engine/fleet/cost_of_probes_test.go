package fleet_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// Probes take less than a hundredth of a step. Eight engines as fast as an A100 with a 7B model play the requests of a
// reference step, 8 groups of 42 trajectories of 8 turns whose prompts begin with the same half; meanwhile all load an
// adapter, with four probes of 64 tokens and without.
func TestProbesTakeLittleOfAStep(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it plays a whole step twice")
	}
	without, plain := stepWithLoad(t, false)
	with, proven := stepWithLoad(t, true)
	t.Logf("a step of %v; with probes %v, %.2f %% more; a load takes %v, with probes %v", without, with,
		100*(with-without).Seconds()/without.Seconds(), plain, proven)
	if with-without > without/100 || proven-plain > without/100 {
		t.Error("that is more than a hundredth of the step")
	}
}

// stepWithLoad plays a step while an adapter is loaded, and answers how long step and load took.
func stepWithLoad(t *testing.T, probes bool) (step, load time.Duration) {
	const engines, games, turns = 8, 42, 8
	synctest.Test(t, func(t *testing.T) {
		a := adapterAt(t, `{"r":8,"lora_alpha":16,"target_modules":["q_proj"]}`)
		a.Prefix, a.Base = filepath.Dir(a.Path), ""
		clients, loads := make([]*vllm.Client, engines), make([]time.Duration, engines)
		for i := range clients {
			_, clients[i] = simulated(t, nil)
		}
		if probes {
			probesOf(t, clients[0], a)
		}
		var playing, loading sync.WaitGroup
		start := time.Now()
		for i, client := range clients {
			loading.Go(func() {
				time.Sleep(2 * time.Second)
				sec, err := fleet.Loader{}.Load(t.Context(), client, "a", a)
				if err != nil {
					t.Error(err)
				}
				loads[i] = time.Duration(sec * float64(time.Second))
			})
			for game := range games {
				playing.Go(func() {
					rules := strings.Repeat(" an army moves to the next province,", 25)
					for turn := range turns {
						answer, err := client.Complete(t.Context(), rollout.Request{
							ID: fmt.Sprint(i, game, turn), Model: enginesim.DefaultConfig().Model,
							Prompt: fmt.Sprint(rules, i, game, turn, rules), Timeout: rollout.Duration(time.Minute),
							Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 24},
						})
						if err != nil {
							t.Error(err)
						}
						if i+game+turn == 0 && !probes {
							t.Logf("prompts of %d tokens", len(answer.PromptTokenIDs))
						}
					}
				})
			}
		}
		playing.Wait()
		step = time.Since(start)
		loading.Wait()
		load = slices.Max(loads)
	})
	return step, load
}

// probesOf writes what a trainer with an engine's own weights would write.
func probesOf(t *testing.T, client *vllm.Client, a fleet.Adapter) {
	t.Helper()
	if err := client.LoadAdapter(t.Context(), a.Name, a.Path); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Probes []adapterfiles.Probe `json:"probes"`
	}
	for p := range 4 {
		tokens := make([]int32, 64)
		for i := range tokens {
			tokens[i] = int32(1000 + 100*p + i)
		}
		of := map[string][]float64{}
		for _, model := range []string{a.Name, enginesim.DefaultConfig().Model} {
			logprobs, err := client.Score(t.Context(), model, tokens)
			if err != nil {
				t.Fatal(err)
			}
			of[model] = logprobs
		}
		file.Probes = append(file.Probes, adapterfiles.Probe{Tokens: tokens, From: 1, Logprobs: of[a.Name],
			Base: of[enginesim.DefaultConfig().Model]})
	}
	writeProbeFile(t, a.Path, file)
	if err := client.UnloadAdapter(t.Context(), a.Name); err != nil {
		t.Fatal(err)
	}
}
