package workflows_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/workflows"
)

// adapters is a folder for adapters, which the world's spec names as its prefix.
func (w *world) adapters() string {
	w.t.Helper()
	if w.spec.Adapters.PathPrefix == "" {
		w.spec.Adapters.PathPrefix = w.t.TempDir()
	}
	return w.spec.Adapters.PathPrefix
}

// write writes an adapter with these weights and answers its path.
func (w *world) write(name, weights string) string {
	w.t.Helper()
	dir := filepath.Join(w.adapters(), name)
	for file, text := range map[string]string{"adapter_config.json": `{"r":8,"target_modules":["q_proj"]}`,
		"adapter_model.safetensors": weights} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return dir
}

// publish sends a publication; then hears its answer. Each is an update of its own, as each call of the API is.
func (w *world) publish(v rollout.PolicyVersion, path string, then func(runstatus.Policy, error)) {
	w.publishAs(0, v, path, then)
}

func (w *world) publishAs(by rollout.TrainerGeneration, v rollout.PolicyVersion, path string,
	then func(runstatus.Policy, error)) {
	w.updates++
	w.env.UpdateWorkflow(workflows.UpdatePublish, fmt.Sprintf("publish-%d", w.updates),
		callbacks(func(answer any, err error) {
			policy, _ := answer.(runstatus.Policy)
			then(policy, err)
		}), workflows.Publication{Version: v, Path: path, Generation: by})
}

// serves expects that a publication succeeds.
func (w *world) serves(p runstatus.Policy, err error) {
	w.t.Helper()
	if err != nil || p.State != runstatus.PolicyServing {
		w.t.Errorf("published: %+v, %v; want it to serve", p, err)
	}
}

// refused expects a refusal of a code, with these words.
func (w *world) refused(code rollout.RefusalCode, words ...string) func(runstatus.Policy, error) {
	return func(_ runstatus.Policy, err error) {
		w.t.Helper()
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != string(code) {
			w.t.Errorf("answer %v; want it refused as %s", err, code)
			return
		}
		for _, word := range words {
			if !strings.Contains(app.Message(), word) {
				w.t.Errorf("%q does not say %q", app.Message(), word)
			}
		}
	}
}

func (w *world) stopAt(d time.Duration) {
	w.at(d, func() { w.update(workflows.UpdateStop, "done", func(any, error) {}) })
}

// A version never changes its weights: publishing the same again is a repetition, whatever the path; other weights are
// refused.
func TestPublishingAgainComparesWeights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, twin := w.write("one", "weights 1"), w.write("twin", "weights 1")
	w.at(1*time.Minute, func() { w.publish(1, one, w.serves) })
	w.at(2*time.Minute, func() { w.publish(1, one, w.serves) })
	w.at(3*time.Minute, func() {
		w.publish(1, twin, func(p runstatus.Policy, err error) {
			if w.serves(p, err); p.Path != one {
				t.Errorf("served from %s, want %s: a name never changes its path", p.Path, one)
			}
		})
	})
	w.at(4*time.Minute, func() {
		w.publish(1, w.write("other", "weights 2"), w.refused("conflict", "sha256:", "publish these as version 2"))
	})
	w.at(5*time.Minute, func() {
		w.publish(2, w.write("one", "weights 2"), w.refused("conflict", "demo-v1", "directory of their own"))
	})
	w.at(6*time.Minute, func() { w.publish(1, one, w.refused("conflict", "sha256:", "publish these as version 2")) })
	w.at(7*time.Minute, func() { w.publish(2, w.write("two", "weights 2"), w.serves) })
	w.stopAt(8 * time.Minute)
	w.start()
	if status := w.result(); status.PolicyVersion != 2 {
		t.Errorf("version %d, want 2", status.PolicyVersion)
	}
}

// An outage is never the adapter's fault: the version waits as it is, and serves when an engine is back and it is
// published again.
func TestOutageDoesNotRejectAPublication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.write("one", "weights 1")
	w.fleet.ready = nil
	w.at(1*time.Minute, func() {
		w.publish(1, one, w.refused("unavailable", "no engine is ready", "no fault of the adapter"))
	})
	w.at(1*time.Minute+10*time.Second, func() { // meanwhile: it joins the first
		w.publish(1, one, w.refused("unavailable", "no engine is ready"))
	})
	w.at(5*time.Minute, func() {
		status := w.status()
		if len(status.Policies) != 1 || status.Policies[0].State != runstatus.PolicyLoading ||
			!strings.Contains(status.Policies[0].Reason, "waits for engines") {
			t.Errorf("%+v, want version 1 still loading, with the reason", status.Policies)
		}
		w.publish(1, one, w.serves) // an engine comes back while it waits
	})
	w.at(5*time.Minute+20*time.Second, func() {
		w.fleet.mu.Lock()
		defer w.fleet.mu.Unlock()
		w.fleet.ready = []rollout.EngineID{"e1"}
	})
	w.stopAt(10 * time.Minute)
	w.start()
	if status := w.result(); status.PolicyVersion != 1 {
		t.Errorf("version %d, want 1", status.PolicyVersion)
	}
}

// enginesAreBack ends an outage of the engines.
func (w *world) enginesAreBack() {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	w.fleet.ready = []rollout.EngineID{"e1", "e2"}
}

// attach is a trainer process that announces itself.
func (w *world) attach() rollout.TrainerGeneration {
	w.t.Helper()
	generation, _, err := w.buffer.Attach(w.t.Context(), w.spec.Name, nil)
	if err != nil {
		w.t.Error(err)
	}
	return generation
}

// A trainer that is replaced while the engines load its version publishes nothing: the version is its successor's.
func TestAPublicationEndsWithItsTrainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet.ready = nil
	old, heir := w.write("old", "weights of a process that is gone"), w.write("heir", "weights 1")
	w.at(1*time.Minute, func() { w.publishAs(w.attach(), 1, old, w.refused("fenced", "nothing has changed")) })
	w.at(1*time.Minute+5*time.Second, func() { w.generation = w.attach() })
	w.at(1*time.Minute+10*time.Second, w.enginesAreBack)
	w.at(3*time.Minute, func() {
		if len(w.fleet.adapters) != 0 || w.status().PolicyVersion != 0 {
			t.Errorf("the fleet keeps %+v, want nothing of the replaced trainer", w.fleet.adapters)
		}
		w.publishAs(w.generation, 1, heir, w.serves)
	})
	w.stopAt(5 * time.Minute)
	w.start()
	if status := w.result(); status.PolicyVersion != 1 || status.Policies[0].Path != heir {
		t.Errorf("%+v, want the successor's weights", status.Policies)
	}
}

// While a version loads, its trainer's successor may publish other weights; the replaced trainer may not take it back.
func TestAReplacedTrainerDoesNotTakeAVersionBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet.ready = nil
	old, heir := w.write("old", "weights of a process that is gone"), w.write("heir", "weights 1")
	var first rollout.TrainerGeneration
	w.at(1*time.Minute, func() { first, w.generation = w.attach(), w.attach() })
	w.at(1*time.Minute+5*time.Second, func() { w.publishAs(w.generation, 1, heir, w.serves) })
	w.at(1*time.Minute+10*time.Second, func() { w.publishAs(first, 1, old, w.refused("fenced")) })
	w.at(1*time.Minute+15*time.Second, w.enginesAreBack)
	w.stopAt(4 * time.Minute)
	w.start()
	if status := w.result(); status.PolicyVersion != 1 || status.Policies[0].Path != heir {
		t.Errorf("%+v, want the successor's weights", status.Policies)
	}
}

// A trainer whose version its successor publishes with other weights is told that it was replaced, not that two
// processes of one trainer disagree.
func TestATrainerWhoseVersionItsSuccessorTakesIsFenced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet.ready = nil
	old, heir := w.write("old", "weights of a process that is gone"), w.write("heir", "weights 1")
	w.at(1*time.Minute, func() { w.publishAs(w.attach(), 1, old, w.refused("fenced", "another process")) })
	w.at(1*time.Minute+5*time.Second, func() { w.generation = w.attach() })
	w.at(1*time.Minute+10*time.Second, func() { w.publishAs(w.generation, 1, heir, w.serves) })
	w.at(1*time.Minute+15*time.Second, w.enginesAreBack)
	w.stopAt(4 * time.Minute)
	w.start()
	if status := w.result(); status.PolicyVersion != 1 || status.Policies[0].Path != heir {
		t.Errorf("%+v, want the successor's weights", status.Policies)
	}
}

// A run that asks for probes takes no version without them: nothing would show whether engines serve its weights.
func TestVersionsWithoutProbesAreRefusedWhereTheyAreRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.spec.Adapters.Probes = runspec.ProbesRequired
	bare, broken, proven := w.write("bare", "weights 1"), w.write("broken", "weights 1"), w.write("proven", "weights 1")
	for path, text := range map[string]string{
		broken: `{"probes": []}`, proven: `{"probes": [{"tokens": [1, 2], "from": 1, "logprobs": [-1.5]}]}`,
	} {
		if err := os.WriteFile(filepath.Join(path, adapterfiles.ProbesFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.at(1*time.Minute, func() { w.publish(1, bare, w.refused("invalid", "has no probes.json")) })
	w.at(2*time.Minute, func() { w.publish(1, broken, w.refused("invalid", "probes.json: 0 probes")) })
	w.at(3*time.Minute, func() { w.publish(1, proven, w.serves) })
	w.stopAt(5 * time.Minute)
	w.start()
	if status := w.result(); status.PolicyVersion != 1 {
		t.Errorf("version %d, want 1", status.PolicyVersion)
	}
}

// A history that publications keep from being cut takes no more of them from some length on, and is cut when those that
// are under way have ended.
func TestPublicationsDoNotKeepAHistoryFromBeingCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet.ready = nil
	one := w.write("one", "weights 1")
	w.at(1*time.Minute, func() { w.publish(1, one, w.refused("unavailable", "no engine is ready")) })
	w.at(1*time.Minute+5*time.Second, func() { w.env.SetCurrentHistoryLength(5000) })
	w.at(1*time.Minute+10*time.Second, func() { w.publish(1, one, w.refused("unavailable", "no engine is ready")) })
	w.at(1*time.Minute+15*time.Second, func() { w.env.SetCurrentHistoryLength(7000) })
	w.at(1*time.Minute+20*time.Second, func() { w.publish(1, one, w.refused("unavailable", "history is cut")) })
	w.at(1*time.Minute+25*time.Second, func() {
		w.update(workflows.UpdateChange, spec.Pause(true), func(_ any, err error) {
			if err != nil {
				t.Errorf("pause: %v", err)
			}
		})
	})
	w.at(4*time.Minute, func() { t.Error("it was not cut within two minutes") })
	w.start()
	var cut *workflow.ContinueAsNewError
	if err := w.env.GetWorkflowError(); !errors.As(err, &cut) {
		t.Fatalf("the execution ended with %v, want it cut", err)
	}
}

// A Redis that loses the run during a publication is not the adapter's fault: the trainer may ask again.
func TestLostRedisDoesNotRejectAPublication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet.ready = nil
	one := w.write("one", "weights 1")
	w.at(1*time.Minute, func() { w.publish(1, one, w.refused("unavailable", "no fault of the adapter")) })
	w.at(1*time.Minute+5*time.Second, func() {
		w.rdb.FlushAll(t.Context())
		w.enginesAreBack()
	})
	w.at(5*time.Minute, func() { w.publish(1, one, w.serves) })
	w.stopAt(8 * time.Minute)
	w.start()
	if status := w.result(); status.PolicyVersion != 1 {
		t.Errorf("version %d, want 1", status.PolicyVersion)
	}
}

// A version that never served may get other weights from another directory: the first attempt gives way.
func TestWeightsOfAVersionThatNeverServedMayBeReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet.ready = nil
	first, second := w.write("first", "weights 1"), w.write("second", "weights 2")
	w.at(1*time.Minute, func() { w.publish(1, first, w.refused("conflict", "other weights")) })
	w.at(1*time.Minute+5*time.Second, func() { w.publish(1, second, w.serves) })
	w.at(1*time.Minute+15*time.Second, func() {
		w.fleet.mu.Lock()
		defer w.fleet.mu.Unlock()
		w.fleet.ready = []rollout.EngineID{"e1", "e2"}
	})
	w.at(4*time.Minute, func() {
		if len(w.fleet.adapters) != 1 || w.fleet.adapters[0].Path != second {
			t.Errorf("the fleet keeps %+v, want the second weights", w.fleet.adapters)
		}
		w.publish(1, first, w.refused("conflict", "publish these as version 2"))
	})
	w.stopAt(5 * time.Minute)
	w.start()
	w.result()
}

// An engine may have the first attempt's weights under the name, though nobody knows: others must not come from the
// same path.
func TestWeightsAreNotReplacedInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.write("one", "weights 2")
	w.fleet.asked = map[rollout.EngineID]fleet.LoadRecord{"e2": {Path: one, Digest: "sha256:0123"}}
	w.at(1*time.Minute, func() { w.publish(1, one, w.refused("conflict", "e2", "directory of their own")) })
	w.at(2*time.Minute, func() { w.publish(1, w.write("two", "weights 2"), w.serves) })
	w.stopAt(3 * time.Minute)
	w.start()
	w.result()
}

// Nothing outside of the prefix is published, and the answer does not say what is there.
func TestPathsAreConfinedToTheirPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prefix := w.adapters()
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(prefix, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/nothing", filepath.Join(prefix, "dangling")); err != nil {
		t.Fatal(err)
	}
	answers := map[string]bool{}
	for i, path := range []string{prefix + "/../etc", "/etc", prefix, prefix + "x/one", "relative", prefix + "/link",
		prefix + "/dangling"} {
		w.at(time.Minute+time.Duration(i)*time.Second, func() {
			w.publish(1, path, func(p runstatus.Policy, err error) {
				w.refused("invalid")(p, err)
				answers[strings.ReplaceAll(fmt.Sprint(err), path, "PATH")] = true
			})
		})
	}
	w.stopAt(3 * time.Minute)
	w.start()
	if status := w.result(); status.PolicyVersion != 0 || len(w.fleet.loaded) != 0 {
		t.Errorf("version %d, loaded %v", status.PolicyVersion, w.fleet.loaded)
	}
	if len(answers) != 5 { // both links alike, and both plain paths outside
		t.Errorf("%d different answers: %v", len(answers), answers)
	}
}

// Who can load a version in time serves it; a quorum is waited for.
func TestQuorum(t *testing.T) {
	t.Parallel()
	const hang = rollout.FailureKind("hang")
	for _, tt := range []struct {
		name   string
		quorum int
		kind   rollout.FailureKind // of what e2 answers
		code   rollout.RefusalCode // empty: it serves
	}{
		{"an engine that stays ready cannot load", 0, rollout.Retryable, ""},
		{"an engine refuses for good", 0, rollout.Permanent, ""},
		{"an engine hangs", 0, hang, ""},
		{"one is enough", 1, rollout.Retryable, ""},
		{"one is enough, the other refuses for good", 1, rollout.Permanent, ""},
		{"two are wanted, one refuses for good", 2, rollout.Permanent, "unavailable"},
		{"two are wanted, one cannot now", 2, rollout.Retryable, "unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.spec.Adapters.Quorum, w.spec.Adapters.LoadTimeout = tt.quorum, rollout.Duration(50*time.Millisecond)
			if tt.kind == hang {
				w.fleet.hangs = "e2"
			} else {
				w.fleet.bad["e2/adapters/1"] = rollout.Fail(tt.kind, "load", errors.New("no"))
			}
			w.at(time.Minute, func() {
				w.publish(1, "/adapters/1", func(p runstatus.Policy, err error) {
					if tt.code != "" {
						w.refused(tt.code)(p, err)
						return
					}
					w.serves(p, err)
					noted := slices.ContainsFunc(p.Notes, func(n string) bool {
						return strings.Contains(n, "engine e2 gets no requests")
					})
					if tt.quorum == 0 && !noted {
						t.Errorf("notes %q do not name e2", p.Notes)
					}
				})
			})
			w.stopAt(10 * time.Minute)
			w.start()
			if status := w.result(); (status.PolicyVersion == 1) != (tt.code == "") {
				t.Errorf("version %d", status.PolicyVersion)
			}
			if tt.code != "" && len(w.fleet.wanted) != 0 {
				t.Errorf("a version that is not in use is wanted: %v", w.fleet.wanted)
			}
			if tt.code == "invalid" && len(w.fleet.loaded) != 0 {
				t.Errorf("a version that is not in use is loaded: %v", w.fleet.loaded)
			}
		})
	}
}
