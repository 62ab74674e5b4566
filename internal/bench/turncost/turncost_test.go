package turncost

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diplomacyenv"
	"github.com/millrace/millrace/internal/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// Every phase of a game of any length has seven turns, answered as the service's own client of engines wants it.
func TestGamesHaveTheTurnsThatAreCounted(t *testing.T) {
	t.Parallel()
	engine, err := startInstantEngine(0)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.stop()
	client, err := vllm.New(vllm.Config{BaseURL: engine.url})
	if err != nil {
		t.Fatal(err)
	}
	env, err := diplomacyenv.FromOptions([]byte(`{"horizon_years":10}`))
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := env.Scenario(1)
	if err != nil {
		t.Fatal(err)
	}
	player := episode.Player{Environment: env, Policy: client, Journal: unsaved{}, Beat: func(int, string) {},
		Now: time.Now}
	ep, _, err := player.Play(t.Context(), episode.Plan{
		Ref: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "turn"}}, Attempt: 1, Model: model,
		Sampling: rollout.Sampling{Temperature: 1, MaxTokens: 256},
		Timeouts: rollout.Timeouts{Episode: rollout.Duration(time.Hour)},
	}, scenario, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ep.Phases != 10*phasesPerYear || ep.Usage.Requests != int64(powers*ep.Phases) {
		t.Errorf("%d phases and %d turns in ten years", ep.Phases, ep.Usage.Requests)
	}
	if n := ep.Counts[diplomacyenv.CountFull]; n != ep.Usage.Requests {
		t.Errorf("%d of %d answers are legal and whole: %v", n, ep.Usage.Requests, ep.Counts)
	}
	if engine.prompt.Load() != ep.Usage.InputTokens || engine.generated.Load() != ep.Usage.OutputTokens {
		t.Errorf("the engine counts %d and %d tokens, the game %d and %d", engine.prompt.Load(), engine.generated.Load(),
			ep.Usage.InputTokens, ep.Usage.OutputTokens)
	}
}

type unsaved struct{}

func (unsaved) Save(context.Context, rollout.Checkpoint) error { return nil }

func TestMovesAreOfTheUnitsAskedFor(t *testing.T) {
	t.Parallel()
	prompt := "rules\n\nS1901M. Powers, units; centres:\n" +
		"FRANCE A PAR F BRE; BRE MAR PAR\nGERMANY A MUN; MUN\nNeutral; SPA POR\n" +
		"\nYou are FRANCE. Order your units:\nA PAR: BUR MUN SPA/NC\nF BRE: POR\nOrders:\n"
	seen := map[string]bool{}
	for seed := range uint64(20) {
		seen[moves(prompt, rand.New(rand.NewPCG(seed, 0)))] = true
	}
	if len(seen) != 2 || !seen["A PAR H\nF BRE H\n"] || !seen["A PAR - BUR\nF BRE H\n"] {
		t.Errorf("answered %v", seen)
	}
}

func TestReadStat(t *testing.T) {
	t.Parallel()
	sec, err := readStat([]byte("42 (a) name) (x) S 1 42 42 0 -1 4194560 1000 0 0 0 250 50 0 0 20 0 9 0 100 1 1 1"))
	if err != nil || sec != 3 {
		t.Errorf("%v s, %v", sec, err)
	}
	if _, err := readStat([]byte("42 (short) S 1")); err == nil {
		t.Error("read a line that is cut off")
	}
}

// A profile of the Go runtime is read with the names of the functions that ran.
func TestReadProfile(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	if err := pprof.StartCPUProfile(&packed); err != nil {
		t.Skip("somebody else makes a profile of this process:", err)
	}
	for begun := time.Now(); time.Since(begun) < 200*time.Millisecond; {
		burn()
	}
	pprof.StopCPUProfile()
	samples, err := readProfile(packed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	inside := 0.0
	for _, s := range samples {
		if slices.ContainsFunc(s.stack, func(name string) bool { return strings.HasSuffix(name, "turncost.burn") }) {
			inside += s.sec
		}
	}
	if inside < 0.01 {
		t.Errorf("%.3f s of a function that ran for 0.2 s, in %d samples", inside, len(samples))
	}
	if _, err := readProfile(packed.Bytes()[:packed.Len()/2]); err == nil {
		t.Error("read a profile that is cut off")
	}
}

//go:noinline
func burn() {
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(i * i)
	}
}

func TestDivide(t *testing.T) {
	t.Parallel()
	got := divide([]sample{
		{[]string{"encoding/json.Unmarshal", ours + "internal/vllm.(*Client).complete", ours + "internal/episode.ask"}, 3},
		{[]string{"runtime.gcAssistAlloc", "runtime.mallocgc", "encoding/json.Unmarshal", ours + "internal/vllm.x"}, 1},
		{[]string{"syscall.write", "github.com/redis/go-redis/v9.write", ours + "internal/buffer.(*journal).Answer"}, 2},
		{[]string{"main.other"}, 2},
	})
	var names []string
	for _, p := range got {
		names = append(names, p.Name)
	}
	want := []string{"call to the engine", restPart, "save of answers", "garbage collection"}
	if !slices.Equal(names, want) {
		t.Errorf("parts %q, want %q", names, want)
	}
	if got[0].Share != 3.0/8 || got[0].Kinds["JSON"] != 3 {
		t.Errorf("%+v", got[0])
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	c := DefaultConfig()
	if n := c.groups(10); n*c.Samples*10*powers < c.Turns || (n-1)*c.Samples*10*powers >= c.Turns {
		t.Errorf("%d groups", n)
	}
	bad := Config{Phases: []int{3, 4000}, Turns: 0, Samples: 0, Games: 0, After: -1}
	err := bad.Validate()
	for _, word := range []string{"phases: 3", "phases: 4000", "turns", "samples", "games", "after"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not among the faults: %v", word, err)
		}
	}
}
