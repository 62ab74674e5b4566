package adapterfiles

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// noTensors is an empty safetensors file: the length of its header, and the header.
const noTensors = "\x08\x00\x00\x00\x00\x00\x00\x00{}      "

// adapterDir writes an adapter with this configuration.
func adapterDir(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"adapter_config.json": config, "adapter_model.safetensors": noTensors} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInspect(t *testing.T) {
	t.Parallel()
	const good = `{"peft_type":"LORA","r":16,"target_modules":["q_proj"],"bias":"none"`
	for _, tt := range []struct {
		name, config string
		says         []string
	}{
		{"fine", good + `}`, nil},
		{"a pattern of modules", `{"r":16,"target_modules":"all-linear"}`, nil},
		{"rank", `{"r":65,"target_modules":["q_proj"]}`, []string{"rank 65", "--max-lora-rank 128", "adapters.rank"}},
		{"rank of one module", `{"r":8,"rank_pattern":{"q_proj":64},"target_modules":["q_proj"]}`, []string{"rank 64"}},
		{"several", good + `,"use_dora":true,"modules_to_save":["lm_head"],"bias":"all"}`,
			[]string{"use_dora=False", "lm_head", `bias="none"`}},
		{"no modules", `{"r":8,"target_modules":[]}`, []string{"target_modules"}},
		{"another kind", `{"peft_type":"IA3","r":8,"target_modules":["q_proj"]}`, []string{"IA3"}},
		{"half written", `{"r":8,`, []string{"adapter_config.json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := adapterDir(t, tt.config)
			got, err := NewReader().Inspect(t.Context(), filepath.Dir(dir), dir, 32)
			if tt.says == nil {
				if err != nil || !strings.HasPrefix(got.Digest, "sha256:") || len(got.Notes) != 0 {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err == nil || rollout.KindOf(err) != rollout.Permanent {
				t.Fatalf("got %+v, %v; want a permanent failure", got, err)
			}
			for _, text := range tt.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		})
	}
}

// TestTensorsOfAnotherRank: an engine would copy what fits and leave the rest as it was.
func TestTensorsOfAnotherRank(t *testing.T) {
	t.Parallel()
	for shapes, says := range map[string]string{
		`{"q.lora_A.weight":{"shape":[8,64]},"q.lora_B.weight":{"shape":[64,8]}}`:  "",
		`{"q.lora_A.weight":{"shape":[8,64]},"q.lora_B.weight":{"shape":[64,16]}}`: "q.lora_B.weight has shape [64 16]",
		`{"q.lora_A.weight":{"shape":[16,64]}}`:                                    "adapter_config.json says r=8",
		`{"policy":{"shape":[3,3]},"__metadata__":{"format":"pt"}}`:                "",
	} {
		dir := adapterDir(t, `{"r":8,"target_modules":["q"]}`)
		file := string(binary.LittleEndian.AppendUint64(nil, uint64(len(shapes)))) + shapes
		if err := os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := NewReader().Inspect(t.Context(), filepath.Dir(dir), dir, 32)
		if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", shapes, err, says)
		}
	}
}

// TestWeightsThatAreNoNumbers: an engine that has them answers nobody who asks for them, and is quarantined for all
// runs.
func TestWeightsThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	const fine = "\x00\x00\x80\x3f" // 1.0 in 32 bits
	for _, tt := range []struct {
		name, kind, data string
		broken           bool
	}{
		{"numbers", "F32", fine + fine, false},
		{"the greatest number", "F32", fine + "\xff\xff\x7f\x7f", false},
		{"a NaN in 32 bits", "F32", fine + "\x00\x00\xc0\x7f", true},
		{"an infinity below zero", "F32", fine + "\x00\x00\x80\xff", true},
		{"a NaN in 16 bits", "F16", "\x00\x3c\x00\x7e", true},
		{"an infinity in 16 bits", "F16", "\x00\x3c\x00\x7c", true},
		{"one in 16 bits", "F16", "\x00\x3c\x00\x3c", false},
		{"a NaN in bfloat16", "BF16", "\x80\x3f\xc0\x7f", true},
		{"one in bfloat16", "BF16", "\x80\x3f\x80\x3f", false},
		{"a NaN in 64 bits", "F64", "\x00\x00\x00\x00\x00\x00\xf8\x7f", true},
		{"bytes", "I8", "\xff\xff\xff\xff", false},
		{"a file that ends before", "F32", "\x00", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := adapterDir(t, `{"r":8,"target_modules":["q"]}`)
			header := fmt.Sprintf(`{"bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},`+
				`"q":{"dtype":%q,"shape":[1],"data_offsets":[4,%d]}}`, tt.kind, 4+max(4, len(tt.data)))
			file := string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + fine + tt.data
			if err := os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(60 * time.Millisecond) // files that were just written are not remembered
			reader := NewReader()
			for range 2 { // the second time it is remembered
				_, err := reader.Inspect(t.Context(), filepath.Dir(dir), dir, 32)
				named := err != nil && strings.Contains(err.Error(), "q holds a NaN") && rollout.KindOf(err) == rollout.Permanent
				if named != tt.broken || err != nil && !named {
					t.Errorf("%v; want a permanent failure that names the tensor: %t", err, tt.broken)
				}
			}
		})
	}
}

// An engine takes a relative path for a model to be fetched from a hub; a configuration without end would be read
// to the end.
func TestInspectRefusesOddPlaces(t *testing.T) {
	t.Parallel()
	endless := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(endless, "adapter_config.json")); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"adapters/v1": "absolute", "": "no path", endless: "leads out of adapters.path_prefix",
	} {
		_, err := NewReader().Inspect(t.Context(), filepath.Dir(endless), path, 32)
		final := rollout.KindOf(err) == rollout.Permanent || rollout.Refused(err, rollout.Invalid)
		if err == nil || !final || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want a permanent failure that says %q", path, err, says)
		}
	}
}

func TestInspectSeesNewWeights(t *testing.T) {
	t.Parallel()
	dir := adapterDir(t, `{"r":8,"target_modules":["q_proj"]}`)
	reader := NewReader()
	before, err := reader.Inspect(t.Context(), filepath.Dir(dir), dir, 8)
	if err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, "adapter_model.safetensors")
	if err := os.WriteFile(weights, []byte(noTensors+"x"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := reader.Inspect(t.Context(), filepath.Dir(dir), dir, 8)
	if err != nil || after.Digest == before.Digest {
		t.Errorf("digest %s after the weights changed, %v", after.Digest, err)
	}
	if err := os.Remove(weights); err != nil {
		t.Fatal(err)
	}
	if _, err = reader.Inspect(t.Context(), filepath.Dir(dir), dir, 8); rollout.KindOf(err) != rollout.Permanent {
		t.Errorf("without weights: %v", err)
	}
}

// Weights that are rewritten in place, as rsync and tar do, with the size and the time of modification that they had.
func TestInspectSeesWeightsWithARestoredTime(t *testing.T) {
	t.Parallel()
	dir := adapterDir(t, `{"r":8,"target_modules":["q_proj"]}`)
	weights, old := filepath.Join(dir, "adapter_model.safetensors"), time.Now().Add(-time.Hour)
	inspect := func(reader *Reader, text string) string {
		t.Helper()
		err := errors.Join(os.WriteFile(weights, []byte(text), 0o600), os.Chtimes(weights, old, old))
		got, inspected := reader.Inspect(t.Context(), filepath.Dir(dir), dir, 8)
		if err = errors.Join(err, inspected); err != nil {
			t.Fatal(err)
		}
		return got.Digest
	}
	config := filepath.Join(dir, "adapter_config.json")
	if err := os.Chtimes(config, old, old); err != nil {
		t.Fatal(err)
	}
	reader := NewReader()
	if inspect(reader, noTensors+"x") == inspect(reader, noTensors+"y") {
		t.Error("other weights have the same digest")
	}
	info, err := os.Stat(weights)
	if err != nil {
		t.Fatal(err)
	}
	read := digested{at: time.Now().Add(time.Hour)}
	if !read.unchanged(info, info) {
		t.Error("a file that nobody touched is read again")
	}
	if err := os.Chtimes(weights, old, old); err != nil { // it may have been written before
		t.Fatal(err)
	}
	if after, err := os.Stat(weights); err != nil || statusChanged(after).Equal(statusChanged(info)) {
		t.Skip("the clock of the file system has not moved")
	} else if read.unchanged(info, after) {
		t.Error("a file whose time of modification was restored is not read again")
	}
}

func TestInspectElsewhere(t *testing.T) {
	t.Parallel()
	prefix := t.TempDir()
	got, err := NewReader().Inspect(t.Context(), prefix, filepath.Join(prefix, "on-the-engines-only"), 8)
	if err != nil || got.Digest != "" || len(got.Notes) != 1 {
		t.Errorf("got %+v, %v; want a note", got, err)
	}
}

// FuzzAdapterConfig: an adapter is let through only if it says a rank that the engines have room for, and modules.
func FuzzAdapterConfig(f *testing.F) {
	for _, config := range []string{
		`{"alpha_pattern":{},"auto_mapping":null,"base_model_name_or_path":"Qwen/Qwen2.5-7B-Instruct","bias":"none",` +
			`"fan_in_fan_out":false,"inference_mode":true,"init_lora_weights":true,"layers_to_transform":null,"lora_alpha":32,` +
			`"lora_dropout":0.0,"modules_to_save":null,"peft_type":"LORA","r":16,"rank_pattern":{},"revision":null,` +
			`"target_modules":["q_proj","v_proj"],"task_type":"CAUSAL_LM","use_dora":false,"use_rslora":false}`,
		`{"r":8,"rank_pattern":{"q_proj":64},"target_modules":"all-linear"}`,
		`{"peft_type":"IA3","r":-1,"use_dora":true,"bias":"all","modules_to_save":["lm_head"],"target_modules":[]}`,
		`{"r":9223372036854775808}`, `{"r":1e2,"target_modules":["x"]}`, `{"r":8,`, `null`, `[]`, "\xff",
	} {
		f.Add([]byte(config), 32)
	}
	f.Fuzz(func(t *testing.T, raw []byte, rank int) {
		if err := checkConfig(content{config: raw}, rank); err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("refused without a word")
			}
			return
		}
		var said struct {
			Rank    int             `json:"r"`
			Ranks   map[string]int  `json:"rank_pattern"`
			Targets json.RawMessage `json:"target_modules"`
		}
		if err := json.Unmarshal(raw, &said); err != nil {
			t.Fatalf("let through %q: %v", raw, err)
		}
		if said.Rank < 1 || rank > 0 && said.Rank > rank || len(said.Targets) == 0 {
			t.Errorf("let through %q with room for rank %d", raw, rank)
		}
		for module, r := range said.Ranks {
			if rank > 0 && r > rank {
				t.Errorf("let through rank %d of %s with room for %d", r, module, rank)
			}
		}
	})
}
