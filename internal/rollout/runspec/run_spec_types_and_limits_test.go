package runspec

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestEnvironmentKeepsItsOptions(t *testing.T) {
	t.Parallel()
	in := `{"horizon_years":3,"kind":"diplomacy"}`
	var e Environment
	if err := json.Unmarshal([]byte(in), &e); err != nil {
		t.Fatal(err)
	}
	if e.Kind != "diplomacy" || string(e.Options) != `{"horizon_years":3}` {
		t.Errorf("%q %s", e.Kind, e.Options)
	}
	out, err := json.Marshal(e)
	if err != nil || string(out) != in {
		t.Errorf("%s %v", out, err)
	}
}

func TestAdmissionIsBoundedByStaleness(t *testing.T) {
	for _, c := range []struct {
		onStale    OnStale
		staleness  int64
		ahead      int
		admitted   int
		first, len int // groups before step 0, of a run so many steps long
	}{
		{DropStale, 4, 0, 5, 8, 100}, // depth 4 is less
		{DropStale, 4, 1, 4, 8, 100},
		{WaitStale, 1, 0, 2, 4, 100},
		{DropStale, 0, 0, 1, 2, 100}, // on-policy: one batch,
		{DropStale, 0, 1, 0, 2, 100}, // and none while it is trained on
		{DropStale, 0, 2, 0, 2, 100},
		{KeepStale, 0, 1, MaxDepth, 8, 100},
		{KeepStale, 0, 0, MaxDepth, 6, 3},
	} {
		b := BufferSpec{Depth: 4, GroupsPerStep: 2, MaxStaleness: c.staleness, OnStale: c.onStale}
		if got := b.AdmittedSteps(c.ahead); got != c.admitted {
			t.Errorf("%s, max staleness %d, %d steps ahead: %d steps' worth admitted, want %d", c.onStale, c.staleness,
				c.ahead, got, c.admitted)
		}
		if got := b.First(c.len); got != c.first {
			t.Errorf("%s, max staleness %d: %d groups before step 0, want %d", c.onStale, c.staleness, got, c.first)
		}
	}
}

// An initial adapter is version 0, one more that engines must have room for, and loaded as fixed policies are.
func TestInitialAdapter(t *testing.T) {
	t.Parallel()
	s := Spec{Name: "go", Model: "base", Policies: []FixedPolicy{{Name: "old", Path: "/adapters/old"}, {Name: "plain"},
		{Name: "gpt", URL: "https://api.example.com/v1", Model: "gpt-x"}}}
	for _, tt := range []struct {
		initial, zero string
		slots         int
		fixed         []FixedPolicy
	}{
		{"", "base", 3, []FixedPolicy{s.Policies[0]}},
		{"/adapters/sft", "go:initial", 4, []FixedPolicy{{Name: "initial", Path: "/adapters/sft"}, s.Policies[0]}},
	} {
		s.Adapters.Initial = tt.initial
		if s.ModelOf(0) != tt.zero || s.ModelOf(3) != "go-v3" || s.Slots() != tt.slots {
			t.Errorf("initial %q: version 0 is %s, 3 is %s, %d slots", tt.initial, s.ModelOf(0), s.ModelOf(3), s.Slots())
		}
		if got := s.FixedAdapters(); !slices.Equal(got, tt.fixed) {
			t.Errorf("initial %q: fixed adapters %v", tt.initial, got)
		}
	}
}

// An evaluation's learner is called as in the run whose version it is.
func TestPlayerOfEvaluation(t *testing.T) {
	t.Parallel()
	training, evaluation := Spec{}, Spec{Evaluation: Evaluation{Run: "demo", Version: 12}}
	if got := training.PlayerOf(0) + training.PlayerOf(7) + evaluation.PlayerOf(0); got != "v0v7v12" {
		t.Error(got)
	}
}
