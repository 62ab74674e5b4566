package diplomacyenv

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/episode"
)

// playOut plays a game to its end with random answers and returns the sum of each agent's turn rewards.
func playOut(tb testing.TB, g episode.Game, rng *rand.Rand) (turns map[string]float64, phases []string) {
	tb.Helper()
	turns = map[string]float64{}
	for !g.Done() {
		phases = append(phases, g.Phase())
		out, err := g.Act(answers(tb, g, rng))
		if err != nil {
			tb.Fatal(err)
		}
		for agent, r := range out.Rewards {
			turns[agent] += r
		}
		if out.Counts[CountPartial]+out.Counts[CountEmpty]+out.Counts[CountInvalid]+out.Counts[CountIllegal]+
			out.Counts[CountMissing] != 0 {
			tb.Errorf("%s: answers within the constraint are counted as %v", phases[len(phases)-1], out.Counts)
		}
	}
	return turns, phases
}

func TestHorizon(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options string
		last    int32
	}{{``, 1903}, {`{"horizon_years":1}`, 1901}, {`{"start":` + starts["movement"] + `,"horizon_years":2}`, 1903}} {
		g := startGame(t, newEnv(t, tt.options), 1, 0)
		_, phases := playOut(t, g, rand.New(rand.NewPCG(1, 1)))
		last, err := diplomacy.ParsePhase(phases[len(phases)-1])
		if err != nil || last.Year != tt.last {
			t.Errorf("%s: the last phase is %s, want one of %d", tt.options, last, tt.last)
		}
		result, err := g.Result()
		if err != nil || !result.Truncated {
			t.Errorf("%s: result %+v, %v: want it truncated", tt.options, result, err)
		}
	}
}

// Warm-ups are drawn from the whole range, stay out of the last year, and are the same for all samples.
func TestWarmup(t *testing.T) {
	t.Parallel()
	for _, options := range []string{
		`{"warmup_phases":{"min":1,"max":4},"warmup_bot":"chaos"}`,
		`{"warmup_phases":{"min":3,"max":40},"warmup_bot":"dumb","horizon_years":2}`,
		`{"warmup_phases":{"min":2,"max":2},"warmup_bot":"hold"}`,
		`{"warmup_phases":{"min":0,"max":3},"warmup_bot":"random"}`,
	} {
		env := newEnv(t, options)
		seen := map[int]bool{}
		for seed := range int64(40) {
			scenario, err := env.Scenario(seed)
			if err != nil {
				t.Fatal(err)
			}
			again, _ := env.Scenario(seed)
			if !bytes.Equal(scenario, again) {
				t.Fatalf("%s: seed %d gives two scenarios", options, seed)
			}
			var r record
			if err := json.Unmarshal(scenario, &r); err != nil {
				t.Fatal(err)
			}
			seen[r.Warmup] = true
			a, errA := env.Start(scenario, seed, 0)
			b, errB := env.Start(scenario, seed, 5)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			mustAskTheSame(t, a, b)
			if a.Done() {
				t.Fatalf("%s: seed %d: nothing is left to play", options, seed)
			}
			phase, _ := diplomacy.ParsePhase(a.Phase())
			if r.Warmup > 0 && phase.Year > env.lastYear || len(scenario) > 32_000 {
				t.Errorf("%s: fork at %s, %d bytes", options, a.Phase(), len(scenario))
			}
		}
		w := env.cfg.WarmupPhases
		for n := range seen {
			if n < w.Min || n > w.Max {
				t.Errorf("%s: a warm-up of %d phases", options, n)
			}
		}
		if w.Max < 10 && len(seen) != w.Max-w.Min+1 {
			t.Errorf("%s: warm-ups of %v phases, want all from %d to %d", options, seen, w.Min, w.Max)
		}
	}
}

// Turn rewards of a score kind add up to what the score changed by, as far as a later turn could tell.
func TestTurnRewardsAddUp(t *testing.T) {
	t.Parallel()
	env := newEnv(t, `{"reward":{"kind":"center_share","per_turn":true}}`)
	for seed := range int64(5) {
		g := startGame(t, env, seed, 0)
		turns, _ := playOut(t, g, rand.New(rand.NewPCG(uint64(seed), 1)))
		inner := g.(*game)
		for agent, sum := range turns {
			p, _ := env.m.PowerByName(agent)
			start := env.cfg.Reward.score(diplomacy.NewGame(env.m), p)
			if got := start + sum; math.Abs(got-inner.rewardTally.last[p]) > 1e-12 {
				t.Errorf("%s: start %v and turns %v make %v, want %v", agent, start, sum, got, inner.rewardTally.last[p])
			}
		}
	}
}

func TestOnlyLearnersAreAskedAndRewarded(t *testing.T) {
	t.Parallel()
	env := newEnv(t, `{"train":["FRANCE","ITALY"],"opponents":{"GERMANY":"chaos"}}`)
	g := startGame(t, env, 3, 0)
	for !g.Done() {
		list, err := g.Prompts()
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]string{}
		for _, p := range list {
			if p.Agent != "FRANCE" && p.Agent != "ITALY" {
				t.Fatalf("%s is asked", p.Agent)
			}
			told[p.Agent] = "nonsense"
		}
		out, err := g.Act(told)
		if err != nil {
			t.Fatal(err)
		}
		if int(out.Counts[CountInvalid]) != len(list) {
			t.Errorf("counts %v of %d prompts", out.Counts, len(list))
		}
	}
	result, err := g.Result()
	if err != nil || len(result.Rewards) != 2 {
		t.Errorf("result %+v, %v: want two rewards", result, err)
	}
}

// A power that a fixed policy plays is asked by that policy's name, counted by itself, and not rewarded.
func TestFixedPoliciesPlayPowers(t *testing.T) {
	t.Parallel()
	env := newEnv(t, `{"train":["FRANCE"],"opponents":{"GERMANY":"policy:frozen","ITALY":"chaos"},"horizon_years":1}`)
	if got := env.Policies(); len(got) != 1 || got[0] != "frozen" {
		t.Errorf("policies %v", got)
	}
	g := startGame(t, env, 3, 0)
	for !g.Done() {
		list, err := g.Prompts()
		if err != nil {
			t.Fatal(err)
		}
		told, learners := map[string]string{}, 0
		for _, p := range list {
			want := map[string]string{"FRANCE": "", "GERMANY": "frozen"}
			if policy, asked := want[p.Agent]; !asked || p.Policy != policy {
				t.Errorf("%s is asked of policy %q", p.Agent, p.Policy)
			}
			if p.Policy == "" {
				learners++
			}
			told[p.Agent] = "nonsense"
		}
		out, err := g.Act(told)
		if err != nil || int(out.Counts[CountInvalid]) != learners ||
			out.Counts[CountOpponentIllegal] != int64(len(list)-learners) || out.Counts[CountOpponentLegal] != 0 {
			t.Errorf("counts %v of %d learners, %v", out.Counts, learners, err)
		}
	}
	result, err := g.Result()
	if err != nil || len(result.Rewards) != 1 {
		t.Errorf("result %+v, %v: want the learner's reward alone", result, err)
	}
}

// Opponents draw from streams of their own: another sample is another game, the same sample the same.
func TestOpponentsDrawPerSample(t *testing.T) {
	t.Parallel()
	env := newEnv(t, `{"train":["FRANCE"],"opponents":{"GERMANY":"chaos"}}`)
	end := func(sample int) string {
		g := startGame(t, env, 3, sample)
		for !g.Done() {
			if _, err := g.Act(map[string]string{"FRANCE": ""}); err != nil {
				t.Fatal(err)
			}
		}
		var r record
		if err := json.Unmarshal(checkpoint(t, g), &r); err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(r.Phases)
		return string(b)
	}
	first := end(1)
	if again := end(1); again != first {
		t.Error("one sample gives two games")
	}
	if end(2) == first {
		t.Error("two samples give one game")
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	env := newEnv(t, `{"horizon_years":1}`)
	g := startGame(t, env, 1, 0)
	if _, err := g.Act(map[string]string{"FRANCE": ""}); err == nil || !strings.Contains(err.Error(), "AUSTRIA") {
		t.Errorf("an answer is missing: got %v", err)
	}
	if _, err := g.Result(); err == nil {
		t.Error("result of an unfinished game: want an error")
	}
	for _, damaged := range []string{
		``, `{"map":"modern"}`, `{"warmup":1}`, `{"phases":[{"name":"F1901M"}]}`,
		`{"phases":[{"name":"S1901M","orders":{"FRANCE":["A PAR - MOS"]}}]}`,
		`{"phases":[{"name":"S1901M","orders":{"SPAIN":[]}}]}`,
	} {
		if _, err := env.Resume([]byte(damaged)); err == nil || !strings.Contains(err.Error(), "checkpoint") {
			t.Errorf("%s: got %v, want an error that names the checkpoint", damaged, err)
		}
		if _, err := SavedGame([]byte(damaged), "x"); err == nil {
			t.Errorf("%s: saved game: want an error", damaged)
		}
	}
	playOut(t, g, rand.New(rand.NewPCG(1, 1)))
	if _, err := g.Act(nil); err == nil {
		t.Error("a move after the end: want an error")
	}
	if list, err := g.Prompts(); err != nil || len(list) != 0 {
		t.Errorf("prompts after the end: %v, %v", list, err)
	}
}

// A game that left the environment follows from the rules, phase by phase.
func TestSavedGameReplays(t *testing.T) {
	t.Parallel()
	env := newEnv(t, `{"warmup_phases":{"min":2,"max":6}}`)
	g := startGame(t, env, 11, 0)
	playOut(t, g, rand.New(rand.NewPCG(4, 4)))
	saved, err := SavedGame(checkpoint(t, g), "run/0/0")
	if err != nil {
		t.Fatal(err)
	}
	other, err := env.SavedGame(checkpoint(t, g), "run/0/0")
	if err != nil {
		t.Fatal(err)
	}
	mustEqualJSON(t, saved, other)
	m, a := diplomacy.Standard(), diplomacy.NewAdjudicator(diplomacy.Standard())
	if saved.ID != "run/0/0" || len(saved.Phases) < 7 {
		t.Fatalf("game %s of %d phases", saved.ID, len(saved.Phases))
	}
	for i := range saved.Phases[:len(saved.Phases)-1] {
		now, next := saved.Phases[i], saved.Phases[i+1]
		s, err := m.Restore(now.State)
		if err != nil {
			t.Fatal(err)
		}
		orders := make([][]diplomacy.Order, len(m.Powers()))
		for p, name := range m.Powers() {
			for _, text := range now.Orders[name] {
				order, err := diplomacy.ParseOrder(m, text)
				if err != nil {
					t.Fatal(err)
				}
				orders[p] = append(orders[p], order)
			}
		}
		out := a.Process(s, orders)
		got := out.Next.Snapshot()
		got.GameID, got.Rules, got.Influence = next.State.GameID, next.State.Rules, next.State.Influence
		mustEqualJSON(t, got, next.State)
	}
}

// FuzzAct: no answer breaks a game, and the counters account for every order asked.
func FuzzAct(f *testing.F) {
	f.Add("A PAR - BUR\nF BRE - MAO\nA MAR - SPA\n", "", uint8(2))
	f.Add("a paris hold\n\xff\n", "WAIVE\nA MUN D\nA MUN R BUR", uint8(7))
	f.Fuzz(func(t *testing.T, one, other string, phases uint8) {
		env := newEnv(t, `{"constraint":"none"}`)
		g := startGame(t, env, 1, 0)
		for i := uint8(0); i < phases%16 && !g.Done(); i++ {
			list, err := g.Prompts()
			if err != nil {
				t.Fatal(err)
			}
			asked, told := int64(0), map[string]string{}
			for k, p := range list {
				told[p.Agent] = one
				if k%2 == 1 {
					told[p.Agent] = other
				}
			}
			for _, o := range g.(*game).options() {
				asked += int64(o.Count)
			}
			out, err := g.Act(told)
			if err != nil {
				t.Fatal(err)
			}
			c := out.Counts
			if c[CountLegal]+c[CountMissing] != asked ||
				int(c[CountFull]+c[CountPartial]+c[CountEmpty]+c[CountInvalid]) != len(list) {
				t.Errorf("%d orders of %d powers asked, counted %v", asked, len(list), c)
			}
		}
		if _, err := env.Resume(checkpoint(t, g)); err != nil {
			t.Errorf("a game that was played does not resume: %v", err)
		}
	})
}

// BenchmarkEpisode plays a three-year game with seven learners that answer nothing: the environment's own time.
func BenchmarkEpisode(b *testing.B) {
	env := newEnv(b, ``)
	scenario, err := env.Scenario(1)
	if err != nil {
		b.Fatal(err)
	}
	silent := map[string]string{}
	for _, name := range env.m.Powers() {
		silent[name] = "A PAR H\n"
	}
	decisions := 0
	for b.Loop() {
		g, err := env.Start(scenario, 1, 0)
		if err != nil {
			b.Fatal(err)
		}
		decisions = 0
		for !g.Done() {
			list, err := g.Prompts()
			if err != nil {
				b.Fatal(err)
			}
			decisions += len(list)
			if _, err := g.Act(silent); err != nil {
				b.Fatal(err)
			}
			checkpoint(b, g)
		}
	}
	b.ReportMetric(float64(decisions), "decisions")
}

// A checkpoint is the record as encoding/json writes it, though each phase is written once.
func TestCheckpointIsTheRecord(t *testing.T) {
	t.Parallel()
	env, err := FromOptions([]byte(`{"horizon_years":4,"warmup_phases":{"min":0,"max":3}}`))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range int64(4) {
		scenario, err := env.Scenario(seed)
		if err != nil {
			t.Fatal(err)
		}
		started, err := env.Start(scenario, seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		for g := started.(*game); ; {
			got, err := g.Checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			if want, err := json.Marshal(g.record); err != nil || string(got) != string(want) {
				t.Fatalf("%v\n got %s\nwant %s", err, got, want)
			}
			if g.Done() {
				break
			}
			if _, err := g.Act(map[string]string{"AUSTRIA": "", "ENGLAND": "", "FRANCE": "A PAR H", "GERMANY": "", "ITALY": "",
				"RUSSIA": "", "TURKEY": ""}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
