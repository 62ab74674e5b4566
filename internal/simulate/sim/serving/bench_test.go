package serving

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// players plays group after group: each game makes its turns one after the other, and when all games of a group
// are over, the next group begins. It is what a run asks of the fleet, without the rest of a run.
type players struct {
	fleet  *Fleet
	agenda *virtualtime.Agenda
	rlWorkload
	next   rollout.GroupSeq
	left   int64 // requests yet to be submitted
	games  []player
	groups []int // games left, by place
	random *virtualtime.Random
	client Client // the players themselves, or who watches them
}

// rlWorkload is the reference workload of rollouts.
type rlWorkload struct {
	runs                   int
	groups                 int // in play at a time, of all runs
	games, turns           int
	prompt, output         int // tokens, on average: from five sixths to seven sixths of a prompt, half to three halves
	shared, sharedInAGroup int // leading tokens, of all prompts and of a group's
}

var reference = rlWorkload{
	runs: 1, groups: 64, games: 6, turns: 42, prompt: 440, output: 24, shared: 200, sharedInAGroup: 320,
}

type player struct {
	ref    rollout.EpisodeRef
	group  int
	turn   int
	shared []enginemodel.Prefix
}

func newPlayers(a *virtualtime.Agenda, f *Fleet, w rlWorkload, requests int64) *players {
	p := &players{fleet: f, agenda: a, rlWorkload: w, left: requests, games: make([]player, w.groups*w.games),
		groups: make([]int, w.groups), random: virtualtime.SplitMix(1)}
	p.client = p
	return p
}

// start begins the first groups.
func (p *players) start() {
	for g := range p.rlWorkload.groups {
		p.begin(g)
	}
}

// begin begins the games of the next group in a place.
func (p *players) begin(g int) {
	seq := p.next
	p.next++
	run := rollout.RunName(fmt.Sprintf("run-%d", g%p.runs))
	p.groups[g] = p.rlWorkload.games
	for i := range p.rlWorkload.games {
		n := g*p.rlWorkload.games + i
		q := &p.games[n]
		shared := append(q.shared[:0], enginemodel.Prefix{Key: 1, Tokens: p.shared},
			enginemodel.Prefix{Key: uint64(seq) + 2, Tokens: p.sharedInAGroup})
		*q = player{ref: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: seq}, Sample: i}, group: g,
			shared: shared}
		p.ask(n)
	}
}

func (p *players) ask(n int) {
	if p.left == 0 {
		return
	}
	p.left--
	q := &p.games[n]
	prompt := p.prompt*5/6 + p.random.IntN(p.prompt/3+1)
	output := p.output/2 + p.random.IntN(p.output+1)
	p.fleet.Submit(Request{
		Episode: q.ref, Model: "v1", Prompt: prompt, Output: output, ToldPrompt: prompt, Shared: q.shared, Client: p.client,
		Tag: uint64(n),
	})
}

func (p *players) Answered(now time.Duration, tag uint64, answer Answer) {
	n := int(tag)
	q := &p.games[n]
	if q.turn++; q.turn < p.turns {
		p.ask(n)
		return
	}
	if p.groups[q.group]--; p.groups[q.group] == 0 {
		p.begin(q.group)
	}
}

func a100Limits() batch.Limits {
	return batch.Limits{Sequences: 512, Tokens: 16384, KV: 900_000, Block: 16, Adapters: 8, HostAdapter: 16}
}

// a100Fleet is engines of one kind that serve an adapter.
func a100Fleet(a *virtualtime.Agenda, engines, limit int) *Fleet {
	f := New(a, Config{CallOverhead: 20 * time.Millisecond, Scheduler: dispatch.Config{MaxQueued: 1 << 30}})
	for i := range engines {
		id := rollout.EngineID(fmt.Sprintf("engine-%02d", i))
		f.AddEngine(id, enginemodel.NewContinuous(batch.A100Qwen7B(), a100Limits(), 1), limit, 8, []string{"base"})
		f.SetAdapters(id, []string{"v1"})
	}
	return f
}

func playOut(a *virtualtime.Agenda) {
	for a.Step() {
	}
}

// processorTime is what the process has used of its processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchmarkRequests reports requests per second of one processor: collecting garbage is included.
func benchmarkRequests(b *testing.B, play func(requests int64)) {
	b.ReportAllocs()
	before := processorTime()
	play(int64(b.N))
	b.StopTimer()
	b.ReportMetric(float64(b.N)/(processorTime()-before).Seconds(), "req/CPU-s")
}

// BenchmarkRLWorkload is prompts of 440 and answers of 24 tokens, games of 42 turns in groups of 6, on 4 engines, with
// the engine that holds a game's prefix preferred.
func BenchmarkRLWorkload(b *testing.B) {
	for _, groups := range []int{8, 64, 170} {
		b.Run(fmt.Sprintf("in_play=%d", groups*reference.games), func(b *testing.B) {
			w := reference
			w.groups = groups
			benchmarkRequests(b, func(requests int64) {
				a := virtualtime.NewAgenda()
				newPlayers(a, a100Fleet(a, 4, 256), w, requests).start()
				playOut(a)
			})
		})
	}
}

// BenchmarkManyEngines is the same workload on more engines, each of which has 256 requests in flight: of one run that
// fills them just so, and of four runs that want half as much again, so that there is always a queue.
func BenchmarkManyEngines(b *testing.B) {
	for _, engines := range []int{1, 4, 16, 64} {
		for _, more := range []bool{false, true} {
			w := reference
			w.groups = engines * 256 / w.games
			if more {
				w.groups, w.runs = w.groups*3/2, 4
			}
			b.Run(fmt.Sprintf("engines=%d/queue=%t", engines, more), func(b *testing.B) {
				benchmarkRequests(b, func(requests int64) {
					a := virtualtime.NewAgenda()
					newPlayers(a, a100Fleet(a, engines, 256), w, requests).start()
					playOut(a)
				})
			})
		}
	}
}

// BenchmarkLinear is the reference workload from 10,000 to 1,000,000 requests: the time of one request stays, and so
// does the memory that is held at the end.
func BenchmarkLinear(b *testing.B) {
	for _, requests := range []int64{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("requests=%d", requests), func(b *testing.B) {
			var last *Fleet
			before := processorTime()
			for b.Loop() {
				a := virtualtime.NewAgenda()
				last = a100Fleet(a, 4, 256)
				newPlayers(a, last, reference, requests).start()
				playOut(a)
			}
			b.ReportMetric(float64(requests)*float64(b.N)/(processorTime()-before).Seconds(), "req/CPU-s")
			b.ReportMetric(heldMemory(last)/1e6, "MB-held")
		})
	}
}

// heldMemory is how many bytes are in use after garbage is collected, while a fleet is still needed.
func heldMemory(f *Fleet) float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	runtime.KeepAlive(f)
	return float64(m.HeapAlloc)
}
