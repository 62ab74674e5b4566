package buffer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

const run = rollout.RunName("demo")

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// clock goes on by a second at every look.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Second)
	return c.at
}

// fixture is one opened run on one Redis.
type fixture struct {
	*buffer.Store
	t   testing.TB
	ctx context.Context
	rdb redis.UniversalClient
}

func spec(groupsPerStep, steps int) runspec.Spec {
	return runspec.Spec{
		Name: run, Model: "m", Steps: steps,
		Environment: runspec.Environment{Kind: "diplomacy"},
		Group:       runspec.GroupSpec{Samples: 2, MinSamples: 2},
		Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: groupsPerStep, MaxStaleness: 1, OnStale: runspec.DropStale,
			Prefill: runspec.PrefillBatch},
	}
}

func open(t testing.TB, rdb redis.UniversalClient, s runspec.Spec) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: context.Background(), rdb: rdb}
	c := &clock{at: start}
	f.Store = buffer.New(rdb, buffer.Options{Now: c.Now})
	f.ok(f.Open(f.ctx, s))
	return f
}

// confirm does what a run does after a restart of Redis that has lost nothing.
func (f *fixture) confirm() {
	f.t.Helper()
	a, err := f.Account(f.ctx, run)
	f.ok(err)
	confirmed, err := f.Confirm(f.ctx, run, a.Mark.Era, a.ReplicationID)
	f.ok(err)
	if !confirmed {
		f.t.Fatal("not confirmed")
	}
}

func (f *fixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// refused checks that err is a refusal with this code and a text.
func (f *fixture) refused(err error, code rollout.RefusalCode) {
	f.t.Helper()
	if !rollout.Refused(err, code) {
		f.t.Fatalf("got %v, want a refusal with code %s", err, code)
	}
	if err.Error() == "" {
		f.t.Errorf("a refusal without text")
	}
}

func ref(seq int) rollout.GroupRef { return rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(seq)} }

// queue registers groups from one number to another, both included.
func (f *fixture) queue(from, to int) {
	f.t.Helper()
	for seq := from; seq <= to; seq++ {
		f.launch(0, seq)
	}
}

// launch registers groups that were launched with a version.
func (f *fixture) launch(version rollout.PolicyVersion, seqs ...int) {
	f.t.Helper()
	for _, seq := range seqs {
		_, err := f.Queue(f.ctx, ref(seq), fmt.Appendf(nil, "scenario %d", seq), version, start)
		f.ok(err)
	}
}

// ready queues, starts and commits groups of one version.
func (f *fixture) ready(version rollout.PolicyVersion, seqs ...int) {
	f.t.Helper()
	for _, seq := range seqs {
		f.launch(version, seq)
		f.ok(f.Start(f.ctx, ref(seq)))
		c, err := f.CommitGroup(f.ctx, group(seq, version))
		f.ok(err)
		if c != (buffer.Commit{}) {
			f.t.Fatalf("commit of group %d: %+v", seq, c)
		}
	}
}

func (f *fixture) claim(step, generation int) *rollout.Batch {
	f.t.Helper()
	b, err := f.Claim(f.ctx, run, rollout.Step(step), rollout.TrainerGeneration(generation), buffer.Share{})
	f.ok(err)
	return b
}

func (f *fixture) complete(step, generation int) steprecord.StepRecord {
	f.t.Helper()
	r, fresh, err := f.Complete(f.ctx, run, rollout.Step(step), rollout.TrainerGeneration(generation), report(step),
		steprecord.FleetView{Engines: 2})
	f.ok(err)
	if !fresh {
		f.t.Errorf("step %d was completed before", step)
	}
	return r
}

func report(step int) steprecord.StepReport {
	return steprecord.StepReport{WallSec: float64(100 + step), Phases: map[steprecord.Phase]float64{
		steprecord.PhaseTrain: 90}}
}

func (f *fixture) counts() steprecord.BufferCounts {
	f.t.Helper()
	c, err := f.Counts(f.ctx, run)
	f.ok(err)
	c.Bytes = 0
	return c
}

// group is a small group of two samples and two agents.
func group(seq int, version rollout.PolicyVersion) *rollout.Group {
	return bigGroup(seq, version, 2, []string{"AUSTRIA", "TURKEY"}, 2, 6, 3)
}

// bigGroup is a group of the given shape: like real games, turns of one agent share the beginning of their prompts, and
// the samples of a group share the first turn's.
func bigGroup(seq int, version rollout.PolicyVersion, samples int, agents []string, turns, prompt,
	completion int) *rollout.Group {
	rng := rand.New(rand.NewPCG(uint64(seq), uint64(version)))
	g := &rollout.Group{
		Ref: ref(seq), MinVersion: version, MaxVersion: version, Samples: samples,
		Times: rollout.GroupTimes{LaunchedAt: start, StartedAt: start.Add(time.Second), ReadyAt: start.Add(time.Minute)},
		Usage: rollout.Usage{Requests: int64(samples * turns), InputTokens: 10, OutputTokens: 5, ExecSec: 1.5},
	}
	text := newText(rng)
	rules := text.tokens(prompt / 2)
	boards := make([][]int32, len(agents))
	for a := range agents {
		boards[a] = text.tokens(prompt - len(rules))
	}
	for sample := range samples {
		g.EpisodeSec = append(g.EpisodeSec, 10+rng.Float64())
		g.ModelSec = append(g.ModelSec, 9+rng.Float64())
		g.QueueSec = append(g.QueueSec, rng.Float64())
		g.EnvSec = append(g.EnvSec, rng.Float64())
		g.Phases = append(g.Phases, (seq*7+sample*3)%40)
		for a, agent := range agents {
			t := rollout.Trajectory{
				ID: rollout.EpisodeRef{GroupRef: g.Ref, Sample: sample}.TrajectoryID(agent), Sample: sample, Agent: agent,
				Reward: rng.Float64(),
			}
			for turn := range turns {
				board := boards[a]
				if turn > 0 {
					board = text.tokens(prompt - len(rules))
				}
				t.Turns = append(t.Turns, rollout.Turn{
					Phase:          fmt.Sprintf("S%dM", 1901+turn),
					PromptTokenIDs: append(append([]int32{}, rules...), board...),
					TokenIDs:       text.tokens(completion), Logprobs: probs(rng, completion),
					PolicyVersion: version, Engine: "engine-0", FinishReason: rollout.FinishStop,
				})
			}
			g.Trajectories = append(g.Trajectories, t)
		}
	}
	rollout.Normalise(g.Trajectories)
	return g
}

// size is what a group takes when it is stored.
func size(t testing.TB, g *rollout.Group) int {
	t.Helper()
	packed, err := pack.Group(g)
	if err != nil {
		t.Fatal(err)
	}
	return len(packed)
}

// text draws token ids as prose has them: few are frequent, many are rare.
type text struct{ zipf *rand.Zipf }

func newText(rng *rand.Rand) text { return text{rand.NewZipf(rng, 1.1, 8, 150_000)} }

func (t text) tokens(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(t.zipf.Uint64())
	}
	return ids
}

func probs(rng *rand.Rand, n int) []float32 {
	p := make([]float32, n)
	for i := range p {
		if rng.IntN(3) > 0 { // the others were forced by the constraint
			p[i] = -float32(rng.ExpFloat64())
		}
	}
	return p
}

// seeds is how many random histories a law is tried on: a quarter under -short, as beside the race detector, which does
// not care what they decide.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 4
	}
	return n
}
