package enginemodel_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

func load(t *testing.T, name string) *enginemodel.Profile {
	t.Helper()
	p, err := enginemodel.LoadProfile(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestA100IsTheSimulatedEngine: the profile, batch.A100Qwen7B and the simulated engine's defaults are one truth.
func TestA100IsTheSimulatedEngine(t *testing.T) {
	t.Parallel()
	p, sim := load(t, "a100-80gb"), enginesim.DefaultConfig()
	if p.Cost(1) != batch.A100Qwen7B() || p.Cost(1) != sim.Cost {
		t.Errorf("the profile's cost is %+v, the simulated engine's %+v", p.Cost(1), sim.Cost)
	}
	want := batch.Limits{
		Sequences: sim.MaxNumSeqs, Tokens: sim.MaxBatchedTokens, KV: sim.KVTokens, Block: sim.BlockSize,
		Adapters: sim.MaxLoRAs, HostAdapter: sim.MaxCPULoRAs,
	}
	if p.Limits() != want {
		t.Errorf("the profile's limits are %+v, the simulated engine's %+v", p.Limits(), want)
	}
	if same := load(t, ""); !reflect.DeepEqual(same, p) {
		t.Error("another profile is meant where none is named")
	}
}

// TestTimeFactor: every time is multiplied, and nothing that is no time. Terms are rounded to nanoseconds.
func TestTimeFactor(t *testing.T) {
	t.Parallel()
	p := load(t, "a100-80gb")
	got, whole := p.Cost(1.0/30), p.Cost(1)
	for _, w := range []batch.Work{{Decoding: 1, KV: 100}, {Decoding: 256, KV: 256 * 450},
		{Prefill: 4096, Attended: 4096 * 4096}, {Decoding: 3, KV: 9000, Prefill: 500, Attended: 250_000, UseAdapter: true}} {
		want := whole.Duration(w) / 30
		if diff := got.Duration(w) - want; diff.Abs() > want/4000 {
			t.Errorf("%+v takes %v, want %v", w, got.Duration(w), want)
		}
	}
	if got.FreeTokens != whole.FreeTokens || got.LoRA != whole.LoRA || p.ColdStart(0.5) != 87*time.Second {
		t.Errorf("%+v, cold start %v", got, p.ColdStart(0.5))
	}
}

// TestProfilesThatComeWithTheProgram: each is read strictly, keeps its ceilings, and is written as it stands.
func TestProfilesThatComeWithTheProgram(t *testing.T) {
	t.Parallel()
	if len(enginemodel.Profiles()) < 3 {
		t.Errorf("there are %v", enginemodel.Profiles())
	}
	for _, name := range enginemodel.Profiles() {
		p := load(t, name)
		if p.Name != name {
			t.Errorf("%s calls itself %s", name, p.Name)
		}
		if len(p.Ceilings()) == 0 {
			t.Errorf("%s has no ceilings", name)
		}
		file, err := os.ReadFile(filepath.Join("profiles", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(p.Text(), file) {
			t.Errorf("%s is written as\n%s", name, p.Text())
		}
		again, err := enginemodel.ReadProfile("again.json", p.Text())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%s is not read back as it was written: %v", name, err)
		}
	}
	a40, a80, h := load(t, "A100-40GB").Cost(1), load(t, "a100-80gb").Cost(1), load(t, "h100-80gb").Cost(1)
	for _, w := range []batch.Work{{Decoding: 1, KV: 500}, {Decoding: 256, KV: 128_000},
		{Prefill: 2048, Attended: 2048 * 2048}} {
		if h.Duration(w) >= a80.Duration(w) || a80.Duration(w) > a40.Duration(w) {
			t.Errorf("%+v takes %v on an H100, %v and %v on A100s", w, h.Duration(w), a80.Duration(w), a40.Duration(w))
		}
	}
}

// TestCeilings: the A100's are those of arithmetic, 22k tokens/s and 7.5 ms.
func TestCeilings(t *testing.T) {
	t.Parallel()
	for i, c := range load(t, "a100-80gb").Ceilings() {
		want := []struct{ bound, tolerance float64 }{{22_065, 1}, {7.47, 0.01}, {28.12, 0.01}, {85.9, 0.01}}[i]
		if c.Broken() || c.Bound < want.bound-want.tolerance || c.Bound > want.bound+want.tolerance {
			t.Errorf("%s: %g of %g %s", c.What, c.Profile, c.Bound, c.Unit)
		}
	}
}

// TestBadProfiles: one fault in a good profile is refused with its line, its key and what is wrong.
func TestBadProfiles(t *testing.T) {
	t.Parallel()
	good := string(load(t, "a100-80gb").Text())
	for _, tt := range []struct {
		name, old, new string
		says           []string
	}{
		{"prefill faster than the GPU", `"token_us": {"value": 48.7`, `"token_us": {"value": 12`,
			[]string{"bad.json:7:", "step.token_us", "tokens/s is more than the 22065.1 tokens/s", "peak_tflops is 312"}},
		{"decode faster than memory", `"fixed_ms": {"value": 11.4`, `"fixed_ms": {"value": 6`,
			[]string{"bad.json:5:", "step.fixed_ms", "6.5 ms is less than the 7.469", "2039"}},
		{"a KV cache read faster than memory", `"kv_ns": {"value": 36`, `"kv_ns": {"value": 20`,
			[]string{"bad.json:9:", "step.kv_ns", "20 ns is less than the 28.12"}},
		{"a KV cache that does not fit", `"kv_tokens": {"value": 900000`, `"kv_tokens": {"value": 2000000`,
			[]string{"bad.json:20:", "engine.kv_tokens", "129.918 GB is more than the 85.9 GB"}},
		{"time that falls with the tokens", `"token_us": {"value": 48.7`, `"token_us": {"value": -1`,
			[]string{"bad.json:7:", "step.token_us.value: -1 is not more than 0"}},
		{"time that falls with the KV cache", `"kv_ns": {"value": 36`, `"kv_ns": {"value": -36`,
			[]string{"bad.json:9:", "step.kv_ns.value: -36 is less than 0", "shorter with more work"}},
		{"an adapter that makes steps shorter", `"lora_factor": {"value": 1.25`, `"lora_factor": {"value": 0.9`,
			[]string{"bad.json:11:", "step.lora_factor.value: 0.9 is less than 1"}},
		{"an unknown key", `"kv_ns"`, `"kv_nanos"`, []string{"bad.json:9:", "step.kv_nanos: unknown key",
			"bad.json:4:", "step.kv_ns: is missing"}},
		{"no value", `"kv_ns": {"value": 36, `, `"kv_ns": {`, []string{"bad.json:9:", "step.kv_ns.value: is missing"}},
		{"no source", `"vLLM --max-num-seqs 512"`, `" "`, []string{"bad.json:18:", "engine.max_sequences.source: must not be empty"}},
		{"a kind that there is not", `"kind": "assumed"`, `"kind": "guessed"`, []string{"bad.json:11:", "step.lora_factor.kind: guessed",
			"measured"}},
		{"a text for a number", `{"value": 36,`, `{"value": "36",`, []string{"bad.json:9:", "step.kv_ns.value: want a number",
			"take the quotes off"}},
		{"a number for a figure", `"kv_bytes_per_token": {`, `"kv_bytes_per_token": 3, "x": {`,
			[]string{"bad.json:36:", "model.kv_bytes_per_token"}},
		{"half a sequence", `{"value": 512,`, `{"value": 512.5,`,
			[]string{"bad.json:18:", "engine.max_sequences.value: 512.5 is not a whole"}},
		{"no name", `"name": "a100-80gb"`, `"name": ""`, []string{"bad.json:2:", "name: must not be empty"}},
		{"a key twice", `"token_us"`, `"fixed_ms"`, []string{"bad.json:7:5: step.fixed_ms: given twice"}},
		{"cut off", "\"model\": {", "", []string{"bad.json:38:1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(good, tt.old) {
				t.Fatalf("the profile has no %s", tt.old)
			}
			p, err := enginemodel.ReadProfile("bad.json", []byte(strings.Replace(good, tt.old, tt.new, 1)))
			if err == nil {
				t.Fatalf("it is read as %+v", p)
			}
			for _, says := range tt.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v\n; want it to say %q", err, says)
				}
			}
		})
	}
	for text, says := range map[string]string{
		"": "the file is empty", "[]": "want keys with values", good + "{}": "bad.json:39:1",
		good[:900]: "could not find end character",
	} {
		if _, err := enginemodel.ReadProfile("bad.json", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want it to say %q", err, says)
		}
	}
}

// TestGPUAndModelGoTogether: without both nothing is held against physics; with one of them the other is missing.
func TestGPUAndModelGoTogether(t *testing.T) {
	t.Parallel()
	p := load(t, "a100-80gb")
	p.GPU, p.Step.FixedMS.Value = enginemodel.GPU{}, 1
	_, err := enginemodel.ReadProfile("x.json", p.Text())
	if err == nil || !strings.Contains(err.Error(), "gpu.peak_tflops: is missing") {
		t.Errorf("a profile with a model and without a GPU: %v", err)
	}
	p.Model = enginemodel.Model{}
	again, err := enginemodel.ReadProfile("x.json", p.Text())
	if err != nil || len(again.Ceilings()) > 0 {
		t.Errorf("a profile without both: %v", err)
	}
}

func TestLoadProfileByNameOrPath(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(file, load(t, "h100-80gb").Text(), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := load(t, file); p.Name != "h100-80gb" {
		t.Errorf("the file is read as %s", p.Name)
	}
	for name, says := range map[string]string{
		"a100-80g": "did you mean a100-80gb?", "tpu": "there are a100-40gb, a100-80gb", "./none.json": "no such file",
		"../profiles/a100-80gb": "no such file", filepath.Dir(file) + "/": "hardware profile",
	} {
		if _, err := enginemodel.LoadProfile(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", name, err, says)
		}
	}
}

// FuzzReadProfile: whatever a file holds is read or refused; what is read can be written and read again, and its steps
// are monotone in tokens and KV cache.
func FuzzReadProfile(f *testing.F) {
	for _, name := range enginemodel.Profiles() {
		p, err := enginemodel.LoadProfile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p.Text())
	}
	f.Add([]byte(`{"name": 3, "step": []}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := enginemodel.ReadProfile("fuzz.json", text)
		if err != nil {
			return
		}
		if !json.Valid(p.Text()) {
			t.Fatalf("it is written as %s", p.Text())
		}
		again, err := enginemodel.ReadProfile("again.json", p.Text())
		if err != nil || again.Cost(1) != p.Cost(1) || again.Limits() != p.Limits() {
			t.Fatalf("not read back: %v", err)
		}
		c := p.Cost(1)
		small := batch.Work{Decoding: 2, KV: 100, Prefill: 30, Attended: 900}
		large := batch.Work{Decoding: 3, KV: 200, Prefill: 60, Attended: 3600}
		if c.Duration(large) < c.Duration(small) {
			t.Errorf("%+v takes longer than %+v", small, large)
		}
	})
}
