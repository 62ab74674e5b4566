package activities

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
)

// countingPolicy answers every agent but those that it refuses, and counts how often each was asked for.
type countingPolicy struct {
	asked  map[string]int
	refuse string
	exec   float64 // seconds that it takes, as it says
}

func (p *countingPolicy) Complete(_ context.Context, req rollout.Request) (rollout.Completion, error) {
	if req.Agent == p.refuse {
		return rollout.Completion{}, errors.New("the engine died")
	}
	p.asked[req.Agent]++
	return rollout.Completion{Text: req.Agent + " of " + req.ID, TokenIDs: []int32{1, 2, 3},
		Timing: rollout.Timing{ExecSec: p.exec}}, nil
}

// openStore is a buffer on an embedded Redis, with a run in it.
func openStore(t *testing.T) *buffer.Store {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	store := buffer.New(rdb, buffer.Options{})
	spec := runspec.Spec{Name: "r", Steps: 1, Buffer: runspec.BufferSpec{Depth: 1, GroupsPerStep: 1,
		OnStale: runspec.DropStale}}
	if err := store.Open(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return store
}

// openCache is the cache of an attempt.
func openCache(t *testing.T, store *buffer.Store, policy *countingPolicy, ref rollout.EpisodeRef, n int) *answerCache {
	t.Helper()
	journal, err := store.OpenJournal(t.Context(), ref, n)
	if err != nil {
		t.Fatal(err)
	}
	return newAnswerCache(policy, journal, n)
}

// A game whose worker died in the middle of a phase asks again only for what was not answered, and only where it
// asks the same.
func TestFinishedTurnsOfAnUnfinishedPhaseAreNotGeneratedAgain(t *testing.T) {
	t.Parallel()
	ctx, ref := t.Context(), rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: 0}, Sample: 1}
	store := openStore(t)
	if err := store.SaveCheckpoint(ctx, ref, 1, rollout.Checkpoint{PhaseIndex: 2, Game: []byte("board")}); err != nil {
		t.Fatal(err)
	}
	policy := &countingPolicy{asked: map[string]int{}, refuse: "ITALY"}
	attempt, asked := func(n int) *answerCache { return openCache(t, store, policy, ref, n) }, 0
	ask := func(m *answerCache, agent, phase, prompt string) (string, error) {
		asked++
		c, err := m.Complete(ctx, rollout.Request{
			ID: ref.String() + "/" + phase + "/" + agent + "/" + strconv.Itoa(asked), Episode: ref,
			Agent: agent, Prompt: prompt,
		})
		return c.Text, err
	}

	first := attempt(1)
	france, err := ask(first, "FRANCE", "2", "p")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(first, "TURKEY", "2", "the board of an attempt that played on"); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(first, "ITALY", "2", "p"); err == nil {
		t.Fatal("want the engine's death")
	}

	policy.refuse = ""
	first.journal.Close()
	second := attempt(2)
	for _, agent := range []string{"FRANCE", "ITALY", "TURKEY"} {
		text, err := ask(second, agent, "2", "p")
		if err != nil {
			t.Fatal(err)
		}
		if agent == "FRANCE" && text != france {
			t.Errorf("FRANCE answers %q, and first answered %q", text, france)
		}
	}
	if _, err := ask(second, "FRANCE", "3", "p"); err != nil { // the next phase is asked for as ever
		t.Fatal(err)
	}
	if want := map[string]int{"FRANCE": 2, "ITALY": 1, "TURKEY": 2}; policy.asked["FRANCE"] != 2 ||
		policy.asked["ITALY"] != 1 || policy.asked["TURKEY"] != 2 {
		t.Errorf("asked %v, want %v", policy.asked, want)
	}
	if got := second.repeated.Load(); got != 6 { // of ITALY, which may have been under way, and TURKEY
		t.Errorf("%d tokens repeated, want 6", got)
	}
	if got := first.repeated.Load(); got != 0 {
		t.Errorf("%d tokens repeated by the first attempt", got)
	}
}

// An answer that took longer than a phase may is not kept: the attempt that follows the phase's deadline would fail
// of it, too.
func TestAnswersTooLateForTheirPhaseAreAskedForAgain(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), openStore(t)
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: 0}, Sample: 1}
	if err := store.SaveCheckpoint(ctx, ref, 1, rollout.Checkpoint{PhaseIndex: 2, Game: []byte("board")}); err != nil {
		t.Fatal(err)
	}
	policy := &countingPolicy{asked: map[string]int{}}
	for attempt := 1; attempt <= 2; attempt++ {
		m := openCache(t, store, policy, ref, attempt)
		m.limit = rollout.Duration(20 * time.Second)
		for agent, exec := range map[string]float64{"FRANCE": 20, "ITALY": 20.5} {
			policy.exec = exec
			if _, err := m.Complete(ctx, rollout.Request{ID: ref.String() + "/2/" + agent + "/1", Episode: ref,
				Agent: agent}); err != nil {
				t.Fatal(err)
			}
		}
		m.journal.Close()
	}
	if policy.asked["FRANCE"] != 1 || policy.asked["ITALY"] != 2 {
		t.Errorf("asked %v; want FRANCE, in time, once and ITALY, too late, twice", policy.asked)
	}
}

// An answer is good for the same question to the same weights alone: what other weights would have said is not theirs.
func TestAnswersToAnotherRequestAreNotUsed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*rollout.Request)
		asked  int
	}{
		{"the same", func(*rollout.Request) {}, 1},
		{"a newer version", func(r *rollout.Request) { r.Model = "r-v2" }, 2},
		{"a prompt", func(r *rollout.Request) { r.Prompt = "another board" }, 2},
		{"a conversation", func(r *rollout.Request) { r.Messages = []rollout.Message{{Content: "hello"}} }, 2},
		{"tools", func(r *rollout.Request) { r.Tools = []byte("[]") }, 2},
		{"a constraint", func(r *rollout.Request) { r.Constraint.Choices = []string{"x"} }, 2},
		{"a temperature", func(r *rollout.Request) { r.Sampling.Temperature = 0.5 }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, policy := openStore(t), &countingPolicy{asked: map[string]int{}}
			ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r"}}
			req := rollout.Request{ID: ref.String() + "/0/FRANCE/1", Episode: ref, Agent: "FRANCE", Model: "r-v1"}
			for attempt := 1; attempt <= 2; attempt++ {
				m := openCache(t, store, policy, ref, attempt)
				if _, err := m.Complete(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				m.journal.Close()
				tt.change(&req)
			}
			if got := policy.asked["FRANCE"]; got != tt.asked {
				t.Errorf("asked %d times, want %d", got, tt.asked)
			}
		})
	}
}
