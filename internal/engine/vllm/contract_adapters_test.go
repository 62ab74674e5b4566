package vllm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
)

func contractAdapters(t *testing.T, x *target) {
	if x.good == "" {
		t.Skip("no -good-adapter")
	}
	const name = "contract-v1"
	if err := x.client.LoadAdapter(t.Context(), name, x.good); err != nil {
		t.Fatal(err)
	}
	if err := x.client.LoadAdapter(t.Context(), name, x.good); err != nil {
		t.Errorf("again, after an answer that may have been lost: %v", err)
	}
	wantCode(t, x.client.LoadAdapter(t.Context(), name, x.good+"-other"), rollout.CodeAdapterConflict)
	models, err := x.client.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(models, func(m vllm.Model) bool {
		return m.ID == name && m.Root == x.good && m.Parent == x.model
	}) {
		t.Errorf("%s is not listed with its root and parent: %+v", name, models)
	}
	req := x.ask(8)
	req.Model = name
	x.complete(t, req) // asserts that the answer names the adapter
	for range 2 {
		if err := x.client.UnloadAdapter(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	_, err = x.client.Complete(t.Context(), req)
	wantCode(t, err, rollout.CodeUnknownModel)
}

func contractBadAdapters(t *testing.T, x *target) {
	wantCode(t, x.client.LoadAdapter(t.Context(), "contract-v2", "/nowhere/at/all"), rollout.CodeAdapterMissing)
	if x.deep == "" {
		t.Skip("no -deep-adapter")
	}
	err := x.client.LoadAdapter(t.Context(), "contract-v3", x.deep)
	wantCode(t, err, rollout.CodeRankTooHigh)
	if err != nil && !strings.Contains(err.Error(), "--max-lora-rank") {
		t.Errorf("%v does not name the flag to change", err)
	}
}

// writeAdapter writes an adapter that a simulated engine can read.
func writeAdapter(t *testing.T, rank int) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"adapter_config.json":       fmt.Sprintf(`{"peft_type":"LORA","r":%d,"lora_alpha":16,"bias":"none","target_modules":["q_proj"]}`, rank),
		"adapter_model.safetensors": "\x02\x00\x00\x00\x00\x00\x00\x00{}",
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
