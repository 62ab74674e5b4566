package evaluation

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func trained(t *testing.T, environment string) runstatus.RunStatus {
	t.Helper()
	file, err := specfile.Read("run", fmt.Appendf(nil, `{"name":"demo","model":"m","steps":9,"environment":%s,
		"adapters":{"initial":"/adapters/sft"},"policies":[{"name":"frozen","path":"/adapters/f"},{"name":"other"}]}`,
		environment))
	if err != nil {
		t.Fatal(err)
	}
	return runstatus.RunStatus{Spec: file.Spec, PolicyVersion: 12, Policies: []runstatus.Policy{
		{Version: 8, Path: "/adapters/demo-v8", State: runstatus.PolicyRetired},
		{Version: 11, Path: "/adapters/demo-v11", State: runstatus.PolicyRejected},
		{Version: 12, Path: "/adapters/demo-v12", State: runstatus.PolicyServing}}}
}

const tictactoe = `{"kind":"tictactoe","opponent":"random"}`

// An evaluation is a run behind all others that begins with the version, and whose starts follow from the opponent.
func TestSpec(t *testing.T) {
	t.Parallel()
	of := trained(t, tictactoe)
	seeds := map[int64]bool{}
	for _, tt := range []struct {
		asked                   Asked
		name, initial, opponent string
		games                   int
	}{
		{Asked{Version: 12, Against: "random", Games: 64}, "demo-eval-v12-random", "/adapters/demo-v12", "random", 64},
		{Asked{Version: 8, Against: "random", Games: 3}, "demo-eval-v8-random", "/adapters/demo-v8", "random", 3},
		{Asked{Version: 0, Against: "v8", Games: 65}, "demo-eval-v0-v8", "/adapters/sft", "policy:v8", 72},
		{Asked{Version: 3, Against: "policy:frozen", Games: 8, Path: "/adapters/old"}, "demo-eval-v3-policy-frozen",
			"/adapters/old", "policy:frozen", 8},
		{Asked{Version: 12, Against: "policy:gpt", URL: "https://x/v1", Model: "gpt-x", MaxTokens: 9, Games: 8},
			"demo-eval-v12-policy-gpt", "/adapters/demo-v12", "policy:gpt", 8},
	} {
		s, err := Spec(of, tt.asked)
		if err != nil {
			t.Errorf("%+v: %v", tt.asked, err)
			continue
		}
		var options struct{ Opponent string }
		if err := json.Unmarshal(s.Environment.Options, &options); err != nil {
			t.Fatal(err)
		}
		games := s.Steps * s.Buffer.GroupsPerStep
		if string(s.Name) != tt.name || s.Adapters.Initial != tt.initial || options.Opponent != tt.opponent ||
			games != tt.games || !s.Dispatch.Behind || s.Evaluation.Run != "demo" {
			t.Errorf("%+v: run %s of %s against %s, %d games: %+v", tt.asked, s.Name, s.Adapters.Initial, options.Opponent,
				games, s.Evaluation)
		}
		seeds[s.Seed] = true
		elsewhere := runspec.FixedPolicy{Name: "gpt", URL: "https://x/v1", Model: "gpt-x", MaxTokens: 9}
		if tt.asked.URL != "" && !slices.Equal(s.Policies, []runspec.FixedPolicy{elsewhere}) {
			t.Errorf("%+v: policies %+v", tt.asked, s.Policies)
		}
	}
	if len(seeds) != 4 {
		t.Errorf("%d seeds for four opponents", len(seeds))
	}
}

// TestNamesOfARunThatCameBack: a run of a name that was used before is not the one whose evaluations are there.
func TestNamesOfARunThatCameBack(t *testing.T) {
	t.Parallel()
	asked := Asked{Version: 8, Against: "random"}
	first, second := Name("demo", asked), Name("demo@2", asked)
	if second != "demo-life2-eval-v8-random" || !Named(second, "demo@2") || Named(first, "demo@2") ||
		Named(second, "demo") {
		t.Errorf("%s and %s", first, second)
	}
}

// TestNames: an evaluation has a name that a run can have, and no other question has it.
func TestNames(t *testing.T) {
	t.Parallel()
	long := rollout.RunName(strings.Repeat("a", 59))
	asked := []Asked{{}, {Against: "random"}, {Against: "policy:a_b"}, {Against: "policy:a-b"}, {Against: "policy:A_b"},
		{Against: "policy:a", Seat: "B"}, {Against: "v3"}, {Against: "policy:v3"},
		{Against: "policy:" + strings.Repeat("x", 39) + "y"}, {Against: "policy:" + strings.Repeat("x", 39) + "z"}}
	seen := map[rollout.RunName]bool{}
	for _, of := range []rollout.RunName{"demo", "demo@2", long + "a", long + "b", long + "b@2"} {
		for _, a := range asked {
			for _, a.Version = range []rollout.PolicyVersion{1, 1e12} {
				name := Name(of, a)
				if err := name.Validate(); err != nil || !Named(name, of) || seen[name] {
					t.Errorf("%s, %+v: %s, another's %v: %v", of, a, name, seen[name], err)
				}
				seen[name] = true
			}
		}
	}
	a, b := Asked{Against: "dumb", Seat: "france"}, Asked{Against: "dumb", Seat: "FRANCE"}
	if Name("demo", a) != Name("demo", b) {
		t.Errorf("%s and %s", Name("demo", a), Name("demo", b))
	}
}

// TestHeldOut: prompts are evaluated by the rows that were held out.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	s, err := Spec(trained(t, `{"kind":"prompts","dataset":"/d.jsonl","held_out":"/h.jsonl","seed":7}`),
		Asked{Version: 12, Games: 8})
	var options struct {
		Dataset string
		HeldOut string `json:"held_out"`
		Seed    int
	}
	if err != nil || json.Unmarshal(s.Environment.Options, &options) != nil || options.Dataset != "/h.jsonl" ||
		options.HeldOut != "" || options.Seed != 7 {
		t.Errorf("%s, %v", s.Environment.Options, err)
	}
}

// What cannot be played is refused with what to do.
func TestBadQuestions(t *testing.T) {
	t.Parallel()
	const diplomacy, self = `{"kind":"diplomacy","train":["FRANCE"]}`, `{"kind":"diplomacy"}`
	for _, tt := range []struct {
		environment string
		asked       Asked
		want        string
	}{
		{tictactoe, Asked{Version: 12, Against: "random"}, "games: 0"},
		{tictactoe, Asked{Version: 13, Against: "random", Games: 8}, "the newest is 12"},
		{tictactoe, Asked{Version: 5, Against: "random", Games: 8}, "--path"},
		{tictactoe, Asked{Version: 11, Against: "random", Games: 8}, "rejected"},
		{tictactoe, Asked{Version: 12, Against: "v5", Games: 8}, "version 5"},
		{tictactoe, Asked{Version: 12, Against: "policy:gone", Games: 8}, "policy:gone is not among the policies"},
		{tictactoe, Asked{Version: 12, Against: "policy:gpt", URL: "https://x/v1", Games: 8},
			"policies[0].model: is missing"},
		{tictactoe, Asked{Version: 12, Against: "policy:gpt", Model: "gpt-x", Games: 8}, "policies[0].url: is missing"},
		{tictactoe, Asked{Version: 12, Against: "policy:frozen", URL: "https://x/v1", Model: "m", Games: 8},
			"has a policy frozen of its own"},
		{tictactoe, Asked{Version: 12, Against: "random", URL: "https://x/v1", Model: "m", Games: 8}, "against: policy:gpt"},
		{tictactoe, Asked{Version: 12, Against: "v8", URL: "https://x/v1", Model: "m", Games: 8}, "against: policy:gpt"},
		{tictactoe, Asked{Version: 12, Against: "dumb", Games: 8}, "random"},
		{tictactoe, Asked{Version: 12, Against: "v012", Games: 8}, "v012"},
		{tictactoe, Asked{Version: 12, Against: "league:past", Games: 8}, "name one opponent"},
		{tictactoe, Asked{Version: 12, Games: 8}, "say whom"},
		{`{"kind":"prompts","dataset":"/d.jsonl"}`, Asked{Version: 12, Games: 8}, "environment.held_out"},
		{`{"kind":"prompts","dataset":"/d.jsonl","held_out":"/h.jsonl"}`, Asked{Version: 12, Seat: "X", Games: 8},
			"no seats"},
		{tictactoe, Asked{Version: 12, Against: "random", Seat: "FRANCE", Games: 8}, "plays X"},
		{tictactoe, Asked{Version: 12, Against: "random", Path: "/elsewhere/v12", Games: 8}, "path_prefix"},
		{diplomacy, Asked{Version: 12, Against: "dumb", Seat: "SPAIN", Games: 8}, "no power \"SPAIN\""},
		{diplomacy, Asked{Version: 12, Against: "nobody", Games: 8}, "nobody"},
		{self, Asked{Version: 12, Against: "dumb", Games: 8}, "say which one"},
	} {
		s, err := Spec(trained(t, tt.environment), tt.asked)
		if !rollout.Refused(err, rollout.Invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, %v; want a refusal that says %q", tt.asked, s.Name, err, tt.want)
		}
	}
	s, err := Spec(trained(t, self), Asked{Version: 12, Against: "dumb", Seat: "france", Games: 8})
	if err != nil || !strings.Contains(string(s.Environment.Options), `"train":["FRANCE"]`) {
		t.Errorf("%s, %v", s.Environment.Options, err)
	}
}

// Versions are compared start by start with the one before that met the same opponent.
func TestResults(t *testing.T) {
	t.Parallel()
	of := trained(t, tictactoe)
	played := func(v rollout.PolicyVersion, against string, rewards ...float64) Played {
		s, err := Spec(of, Asked{Version: v, Against: against, Games: 8})
		if err != nil {
			t.Fatal(err)
		}
		p := Played{Status: runstatus.RunStatus{Spec: s, State: runstatus.RunCompleted}}
		for seq, r := range rewards {
			record := steprecord.StepRecord{Done: true}
			record.Service.Groups = []steprecord.GroupView{{Seq: rollout.GroupSeq(seq), Rewards: []float64{r}}}
			record.Service.Results = []steprecord.VersionResults{{
				Results: steprecord.Results{Reward: stat.OneGroup([]float64{r})}}}
			p.Steps = append(p.Steps, record)
		}
		return p
	}
	of.Policies = append(of.Policies, runstatus.Policy{Version: 10, Path: "/adapters/demo-v10"})
	elsewhere := played(10, "random", 1, 1, 1, 1)
	elsewhere.Status.Spec.Evaluation.Seat = "O"
	another := played(10, "random", 1, 1, 1, 1)
	another.Status.Spec.Policies = []runspec.FixedPolicy{{Name: "random", URL: "https://x/v1", Model: "gpt-x"}}
	all := Results([]Played{played(12, "random", 1, 1, 0.5, 1, 9), played(8, "v0", 1, 1), played(8, "random", 0, 1, 0, 1),
		played(10, "random"), elsewhere, another}, 1)
	kept := slices.DeleteFunc(slices.Clone(all), func(r Result) bool { return !r.Kept })
	if len(kept) != 1 || kept[0].Version != 12 || kept[0].Seat != "" {
		t.Errorf("kept: %+v", kept)
	}
	// One of version 10 is not begun, one is of another seat, one of another model.
	all = slices.DeleteFunc(all, func(r Result) bool { return r.Version == 10 })
	if len(all) != 3 || all[0].Version != 8 || all[0].Difference != nil || all[1].Version != 12 || all[2].Against != "v0" {
		t.Fatalf("%+v", all)
	}
	if v0 := all[2]; v0.Path != "/adapters/demo-v8" || !slices.Equal(v0.Opponents, []string{"/adapters/sft"}) {
		t.Errorf("plays with %q and %q", v0.Path, v0.Opponents)
	}
	d := all[1]
	if d.Difference == nil || d.Pairs != 4 || *d.Before != 8 || math.Abs(d.Difference.Mean-0.375) > 1e-9 {
		t.Errorf("%+v", d)
	}
	if all[2].Difference != nil {
		t.Errorf("compared with another opponent: %+v", all[2])
	}
}

// The best version is that with the highest score against the opponent and in the seat that most versions have met,
// unless they are named; evaluations that go on do not count.
func TestRanking(t *testing.T) {
	t.Parallel()
	scored := func(v rollout.PolicyVersion, against string, state runstatus.RunState, mean float64) Result {
		return Result{Version: v, Against: against, State: state, Score: &stat.Interval{Mean: mean, Half: 0.1}}
	}
	in := func(seat string, r Result) Result { r.Seat = seat; return r }
	all := []Result{scored(1, "random", runstatus.RunCompleted, 0.5), scored(4, "random", runstatus.RunCompleted, 0.8),
		scored(8, "random", runstatus.RunCompleted, 0.8), scored(9, "random", runstatus.RunRunning, 0.9),
		scored(8, "v4", runstatus.RunCompleted, 1), {Version: 3, Against: "random", State: runstatus.RunFailed},
		in("FRANCE", scored(4, "random", runstatus.RunCompleted, 1)),
		in("ITALY", scored(1, "random", runstatus.RunCompleted, 2))}
	for _, tt := range []struct {
		against, seat string
		best          rollout.PolicyVersion
		alike         []rollout.PolicyVersion
	}{
		{"", "", 4, []rollout.PolicyVersion{8}},
		{"random", "", 4, []rollout.PolicyVersion{8}},
		{"v4", "", 8, nil},
		{"", "italy", 1, nil},
	} {
		ranking := Ranking(all, tt.against, tt.seat)
		if len(ranking) == 0 || ranking[0].Version != tt.best || !slices.Equal(NotToldFrom(ranking), tt.alike) {
			t.Errorf("against %q as %q: %+v, want %d", tt.against, tt.seat, ranking, tt.best)
		}
	}
	for _, none := range [][]Result{Ranking(all, "dumb", ""), Ranking(all, "v4", "ITALY"), Ranking(nil, "", "")} {
		if len(none) > 0 {
			t.Errorf("%+v", none)
		}
	}
}
