package fleet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	bad := func(code rollout.Code, text string) error {
		return rollout.Fail(rollout.Permanent, code, errors.New(text))
	}
	for _, tt := range []struct {
		name   string
		bad    error
		served string // path that the name serves already
		kind   rollout.FailureKind
		text   string // in the failure; empty: success
	}{
		{name: "fresh"},
		{name: "loaded already", served: "/adapters/demo-v1"},
		{name: "rank", bad: bad(rollout.CodeRankTooHigh,
			"LoRA rank 64 is greater than max_lora_rank 16: start the engine with a larger --max-lora-rank"),
			kind: rollout.Permanent, text: "--max-lora-rank"},
		{name: "path", bad: bad(rollout.CodeAdapterMissing, "No adapter found"), kind: rollout.Permanent,
			text: "adapters.path_prefix"},
		{name: "DoRA", bad: bad(rollout.CodeBadAdapter, "vLLM does not yet support DoRA."), kind: rollout.Permanent,
			text: "use_dora=False"},
		{name: "bias", bad: bad(rollout.CodeBadAdapter, "Adapter bias is not supported."), kind: rollout.Permanent,
			text: `bias="none"`},
		{name: "refused", bad: errRefused, kind: rollout.Retryable, text: "engine a: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newFakeEngine()
			if tt.bad != nil {
				e.bad["demo-v1"] = tt.bad
			}
			if tt.served != "" {
				e.adapters["demo-v1"] = tt.served
			}
			_, err := fleet.Loader{}.Load(t.Context(), e, "a", adapter(1))
			if tt.text == "" {
				if err != nil || !e.serves("demo-v1") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.text) || rollout.KindOf(err) != tt.kind {
				t.Errorf("got %v (%s), want %s with %q", err, rollout.KindOf(err), tt.kind, tt.text)
			}
		})
	}
}

// forgetful takes an adapter and does not list it.
type forgetful struct{ *fakeEngine }

func (f forgetful) LoadAdapter(context.Context, string, string) error { return nil }

func TestLoadVerifies(t *testing.T) {
	t.Parallel()
	_, err := fleet.Loader{}.Load(t.Context(), forgetful{newFakeEngine()}, "a", adapter(1))
	if rollout.CodeOf(err) != rollout.CodeNotListed {
		t.Errorf("got %v, want code %s", err, rollout.CodeNotListed)
	}
	elsewhere := adapter(1)
	elsewhere.Base = "another-model" // the engine was started again, with a model of the same shape
	_, err = fleet.Loader{}.Load(t.Context(), newFakeEngine(), "a", elsewhere)
	if rollout.CodeOf(err) != rollout.CodeAdapterConflict || rollout.KindOf(err) != rollout.Permanent {
		t.Errorf("got %v, want code %s", err, rollout.CodeAdapterConflict)
	}
}

// rewriting is an engine under whose load the adapter's weights are written anew.
type rewriting struct {
	*fakeEngine
	t *testing.T
}

func (r rewriting) LoadAdapter(ctx context.Context, name, path string) error {
	if err := os.WriteFile(filepath.Join(path, "adapter_model.safetensors"), []byte("others"), 0o600); err != nil {
		r.t.Error(err)
	}
	return r.fakeEngine.LoadAdapter(ctx, name, path)
}

// Nobody knows which weights an engine has read that were changed meanwhile: it has to give them back.
func TestLoadRefusesFilesThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	files, prefix := adapterfiles.NewReader(), t.TempDir()
	a := adapter(1)
	a.Prefix, a.Path = prefix, filepath.Join(prefix, "v1")
	if err := os.Mkdir(a.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"adapter_config.json": `{"r":8,"target_modules":["q_proj"]}`, "adapter_model.safetensors": "weights",
	} {
		if err := os.WriteFile(filepath.Join(a.Path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	published, err := files.Inspect(t.Context(), prefix, a.Path, 8)
	if err != nil {
		t.Fatal(err)
	}
	a.Digest = published.Digest
	e := newFakeEngine()
	_, err = fleet.Loader{Files: files}.Load(t.Context(), rewriting{e, t}, "a", a)
	if rollout.CodeOf(err) != adapterfiles.Changed || rollout.KindOf(err) != rollout.Permanent || e.serves(a.Name) {
		t.Errorf("got %v; the engine serves it: %v", err, e.serves(a.Name))
	}
}
