package rollout

import (
	"math"
	"testing"
)

func TestStaleness(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		sampler, trainer PolicyVersion
		want             int64
	}{
		{"fresh", 7, 7, 0},
		{"two behind", 5, 7, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Staleness(tt.sampler, tt.trainer); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestAdapterNamesAreVersions(t *testing.T) {
	t.Parallel()
	if got := PolicyVersion(12).Adapter("run"); got != "run-v12" {
		t.Errorf("got %q", got)
	}
	if got := PolicyVersion(0).Adapter("run"); got != "" {
		t.Errorf("version 0 is the base model and has no adapter, got %q", got)
	}
}

func TestRunNames(t *testing.T) {
	t.Parallel()
	for _, good := range []RunName{"a", "diplomacy-qwen7b", "x.y_z-1"} {
		if err := good.Validate(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []RunName{"", "A", "-a", "a-", "a/b", "a b", "ä", RunName(make([]byte, 64))} {
		if bad.Validate() == nil {
			t.Errorf("%q passes", string(bad))
		}
	}
}

func TestEpisodeRefs(t *testing.T) {
	t.Parallel()
	ref := EpisodeRef{GroupRef{"demo", 12}, 3}
	back, err := ParseEpisodeRef(ref.String())
	if err != nil || back != ref {
		t.Errorf("%v %v", back, err)
	}
	for _, bad := range []string{"", "demo", "demo/1", "demo/x/1", "demo/1/-1", "demo/1/1/1", "De mo/1/1"} {
		if _, err := ParseEpisodeRef(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestNormaliseComparesEachAgentWithItself(t *testing.T) {
	t.Parallel()
	ts := []Trajectory{
		{Agent: "FRANCE", Reward: 1}, {Agent: "FRANCE", Reward: 3},
		{Agent: "ITALY", Reward: 10}, {Agent: "ITALY", Reward: 10},
		{Agent: "TURKEY", Reward: 0.1}, {Agent: "TURKEY", Reward: 0.1}, {Agent: "TURKEY", Reward: 0.1},
	}
	Normalise(ts)
	for i, want := range []float64{-1, 1, 0, 0, 0, 0, 0} {
		if math.Abs(ts[i].Advantage-want) > 1e-9 {
			t.Errorf("%d: advantage %v, want %v", i, ts[i].Advantage, want)
		}
	}
}

func TestTrajectoriesWithUnequalLengthsAreRefused(t *testing.T) {
	t.Parallel()
	good := Turn{PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{-1}}
	for name, turn := range map[string]Turn{
		"no logprob": {PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}},
		"no tokens":  {PromptTokenIDs: []int32{1}},
		"no prompt":  {TokenIDs: []int32{2}, Logprobs: []float32{-1}},
	} {
		tr := Trajectory{ID: "x", Agent: "a", Turns: []Turn{good, turn}}
		if tr.Validate() == nil {
			t.Errorf("%s passes", name)
		}
	}
	tr := Trajectory{ID: "x", Agent: "a", Turns: []Turn{good}}
	if err := tr.Validate(); err != nil {
		t.Error(err)
	}
}

func TestZeroVarianceGroupsSayNothing(t *testing.T) {
	row := func(agent string, reward float64) Trajectory { return Trajectory{Agent: agent, Reward: reward} }
	for _, c := range []struct {
		name         string
		rows         []Trajectory
		zeroVariance bool
	}{
		{"equal rewards", []Trajectory{row("a", 0.1), row("a", 0.1), row("a", 0.1)}, true},
		{"agents differ, but not from themselves", []Trajectory{row("a", 1), row("b", 0), row("a", 1), row("b", 0)}, true},
		{"one agent differs", []Trajectory{row("a", 1), row("b", 0), row("a", 1), row("b", 0.5)}, false},
		{"a single episode", []Trajectory{row("a", 1), row("b", 0)}, true},
	} {
		if got := HasZeroVariance(c.rows); got != c.zeroVariance {
			t.Errorf("%s: zero variance %v", c.name, got)
		}
		Normalise(c.rows)
		for _, r := range c.rows {
			if c.zeroVariance && r.Advantage != 0 {
				t.Errorf("%s: advantage %v in a group without variance", c.name, r.Advantage)
			}
		}
	}
}
