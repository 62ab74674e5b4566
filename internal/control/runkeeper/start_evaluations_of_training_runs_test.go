package runkeeper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// starter starts runs in a buffer.
type starter struct {
	control
	store *buffer.Store
	names []rollout.RunName
}

func (s *starter) Start(ctx context.Context, spec runspec.Spec) (runstatus.RunStatus, bool, error) {
	status := runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning}
	s.names = append(s.names, spec.Name)
	return status, true, errors.Join(s.store.Open(ctx, spec), s.store.SaveStatus(ctx, status, 0))
}

func evaluatedEvery5() runstatus.RunStatus {
	return runstatus.RunStatus{State: runstatus.RunRunning, Spec: runspec.Spec{Name: "demo", Model: "m", Steps: 99,
		Environment: runspec.Environment{Kind: "tictactoe"}, Group: runspec.GroupSpec{Samples: 1, MinSamples: 1},
		Buffer: runspec.BufferSpec{Depth: 1, GroupsPerStep: 1, OnStale: runspec.KeepStale,
			Prefill: runspec.PrefillBatch},
		Dispatch: runspec.Dispatch{Policy: runspec.LeastTokens},
		Sampling: rollout.Sampling{MaxTokens: 4, TopP: 1},
		Adapters: runspec.AdapterSpec{Rank: 8, PathPrefix: "/adapters"},
		Timeouts: runspec.Timeouts{Completion: rollout.Duration(1e9), Episode: rollout.Duration(60e9),
			Heartbeat: rollout.Duration(10e9)},
		Evaluate: runspec.Evaluate{Every: 5, Against: []string{"v3", "random", "v0"}, Games: 8}}}
}

// TestEvaluationsOfARunAreStarted: the newest version that is due, against each opponent, once; few go on at a time;
// what cannot be evaluated keeps nothing else from it.
func TestEvaluationsOfARunAreStarted(t *testing.T) {
	t.Parallel()
	rdb := redistest.Real(t)
	store := buffer.New(rdb, buffer.Options{})
	control := &starter{store: store}
	k := &Keeper{Control: control, Buffer: store}
	trained := evaluatedEvery5()
	if err := store.Open(t.Context(), trained.Spec); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		version rollout.PolicyVersion
		started []rollout.RunName
	}{
		{0, []rollout.RunName{"demo-eval-v0-random", "demo-eval-v0-v0"}},
		{4, nil},
		{7, []rollout.RunName{"demo-eval-v5-random", "demo-eval-v5-v0"}},
		{10, nil}, // four go on
	} {
		due := tt.version - tt.version%5
		trained.PolicyVersion = tt.version
		trained.Policies = []runstatus.Policy{{Version: due, Path: "/adapters/due", State: runstatus.PolicyServing}}
		if err := store.SaveStatus(t.Context(), trained, int64(tt.version)+1); err != nil {
			t.Fatal(err)
		}
		control.names = nil
		var err error
		for range 2 {
			k.Buffer = buffer.New(rdb, buffer.Options{}) // reads anew what is active
			if err = k.startEvaluations(t.Context()); err == nil || !strings.Contains(err.Error(), "against v3") {
				t.Errorf("version %d: %v, and nobody hears that v3 is not known", tt.version, err)
			}
		}
		if !slices.Equal(control.names, tt.started) {
			t.Errorf("version %d: started %v, want %v: %v", tt.version, control.names, tt.started, err)
		}
	}
}

// TestGamesWithoutOpponentsAreEvaluated: nobody is named, and there is one evaluation.
func TestGamesWithoutOpponentsAreEvaluated(t *testing.T) {
	t.Parallel()
	store := buffer.New(redistest.Real(t), buffer.Options{})
	control := &starter{store: store}
	trained := evaluatedEvery5()
	trained.Spec.Evaluate.Against = nil
	trained.Spec.Environment = runspec.Environment{Kind: "prompts",
		Options: []byte(`{"dataset":"/d.jsonl","held_out":"/h.jsonl"}`)}
	err := errors.Join(store.Open(t.Context(), trained.Spec), store.SaveStatus(t.Context(), trained, 1),
		(&Keeper{Control: control, Buffer: store}).startEvaluations(t.Context()))
	if err != nil || !slices.Equal(control.names, []rollout.RunName{"demo-eval-v0"}) {
		t.Errorf("started %v: %v", control.names, err)
	}
}

// A deleted evaluation is left so, without a word.
func TestADeletedEvaluationDoesNotComeBack(t *testing.T) {
	t.Parallel()
	store := buffer.New(redistest.Real(t), buffer.Options{})
	control := &starter{store: store}
	k := &Keeper{Control: control, Buffer: store}
	trained := evaluatedEvery5()
	trained.Spec.Evaluate.Against = []string{"random"}
	err := errors.Join(store.Open(t.Context(), trained.Spec), store.SaveStatus(t.Context(), trained, 1),
		k.startEvaluations(t.Context()), store.Delete(t.Context(), "demo-eval-v0-random"))
	if err = errors.Join(err, k.startEvaluations(t.Context())); err != nil {
		t.Error(err)
	}
	runs, err := store.Runs(t.Context())
	if err != nil || len(runs) != 1 {
		t.Errorf("%d runs, want the training run alone: %v", len(runs), err)
	}
}

// TestTheLastVersionIsEvaluated: that of a run that has completed lately, and not of one that was stopped.
func TestTheLastVersionIsEvaluated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state   runstatus.RunState
		ago     time.Duration
		started []rollout.RunName
	}{
		{runstatus.RunCompleted, time.Minute, []rollout.RunName{"demo-eval-v7-random", "demo-eval-v7-v0"}},
		{runstatus.RunCompleted, 2 * time.Hour, nil},
		{runstatus.RunStopped, time.Minute, nil},
	} {
		store := buffer.New(redistest.Real(t), buffer.Options{})
		control := &starter{store: store}
		k := &Keeper{Control: control, Buffer: store}
		trained := evaluatedEvery5()
		trained.Spec.Evaluate.Against = trained.Spec.Evaluate.Against[1:]
		trained.State, trained.EndedAt, trained.PolicyVersion = tt.state, time.Now().Add(-tt.ago), 7
		trained.Policies = []runstatus.Policy{{Version: 7, Path: "/adapters/v7", State: runstatus.PolicyRetired}}
		err := errors.Join(store.Open(t.Context(), trained.Spec), store.SaveStatus(t.Context(), trained, 1))
		for range 2 {
			err = errors.Join(err, k.startEvaluations(t.Context()))
		}
		if err != nil || !slices.Equal(control.names, tt.started) {
			t.Errorf("%s %s ago: started %v, want %v: %v", tt.state, tt.ago, control.names, tt.started, err)
		}
	}
}
