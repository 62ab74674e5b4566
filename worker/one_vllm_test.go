package worker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// TestOneVLLM: a run without games is one vLLM to 64 clients. While an engine dies and the trainer loads and unloads
// adapters, no call fails, and each is answered by the version that it names, as an engine alone would answer it.
func TestOneVLLM(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	engines := d.simulated(3)
	d.inProcess()
	spec := d.spec(d.run, servedModel, 100)
	spec.Environment = runspec.Environment{Kind: runspec.NoGames}
	spec.Adapters.PathPrefix, spec.Buffer.MaxStaleness = filepath.Join(d.dir, "adapters"), 2
	d.start(spec)
	base := fmt.Sprintf("/v1/runs/%s/vllm", d.run)
	ask := func(path, body string) said { return d.call("POST", base+path, body) }
	load := func(v int) {
		t.Helper()
		name := fmt.Sprintf("policy-v%d", v)
		path := d.adapter(name, name)
		d.refused(ask("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":%q,"lora_path":%q}`, name, path)), http.StatusOK,
			"added successfully")
	}
	tokens := func(s said) (ids []int32, model string) {
		var answer struct {
			Model   string `json:"model"`
			Choices []struct {
				TokenIDs []int32 `json:"token_ids"`
			} `json:"choices"`
		}
		if s.status != http.StatusOK || json.Unmarshal(s.body, &answer) != nil || len(answer.Choices) != 1 {
			return nil, ""
		}
		return answer.Choices[0].TokenIDs, answer.Model
	}
	const prompt = `{"model":%q,"prompt":[7,8,9],"max_tokens":24,"seed":1,"return_token_ids":true}`
	d.until("a ready engine", func() error {
		if s := d.call("GET", base+"/health", ""); s.status != http.StatusOK {
			return fmt.Errorf("health: %s", s)
		}
		return nil
	})
	want := map[string][]int32{}
	for v := 1; v <= 2; v++ {
		load(v)
		name := fmt.Sprintf("policy-v%d", v)
		want[name], _ = tokens(ask("/v1/completions", fmt.Sprintf(prompt, name)))
	}
	if slices.Equal(want["policy-v1"], want["policy-v2"]) || len(want["policy-v1"]) == 0 {
		t.Fatalf("two adapters answer alike: %v", want)
	}

	var clients sync.WaitGroup
	var asked atomic.Int64
	stop := make(chan struct{})
	for i := range 64 {
		name := fmt.Sprintf("policy-v%d", 1+i%2)
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := ask("/v1/completions", fmt.Sprintf(prompt, name))
				if ids, model := tokens(s); !slices.Equal(ids, want[name]) || model != name {
					t.Errorf("%s answered %s", name, s)
					return
				}
				asked.Add(1)
			}
		})
	}
	calls := func(n int64) {
		t.Helper()
		until := asked.Load() + n
		d.until("more calls", func() error {
			if asked.Load() < until && !t.Failed() {
				return fmt.Errorf("%d calls", asked.Load())
			}
			return nil
		})
	}
	calls(128)
	if err := engines[0].Inject(d.ctx, enginesim.Fault{Kind: enginesim.FaultDrop}); err != nil {
		t.Fatal(err)
	}
	calls(32)
	d.refused(ask("/pause?mode=keep", ""), http.StatusOK)
	load(3) // while an engine is dead and the calls are held
	d.refused(ask("/resume", ""), http.StatusOK)
	calls(256)
	close(stop)
	clients.Wait()
	d.refused(ask("/v1/unload_lora_adapter", `{"lora_name":"policy-v1"}`), http.StatusOK)
	d.refused(ask("/v1/completions", fmt.Sprintf(prompt, "policy-v1")), http.StatusNotFound, "does not exist")
	t.Logf("%d calls", asked.Load())
}
