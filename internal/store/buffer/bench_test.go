package buffer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/buffer/pack"
	"github.com/millrace/millrace/internal/store/redistest"
)

// The reference workload: a step is 8 groups of 42 trajectories, 7 powers by 6 samples, of 8 turns with 440
// prompt and 20 completion tokens.
const referenceGroups = 8

var powers = []string{"AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY"}

func referenceGroup(seq int) *rollout.Group { return bigGroup(seq, 0, 6, powers, 8, 440, 20) }

// BenchmarkPack packs and unpacks one reference group, and reports its size per trajectory beside that of JSON.
func BenchmarkPack(b *testing.B) {
	g := referenceGroup(0)
	packed, err := pack.Group(g)
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(g)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := pack.Group(g); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(packed)/len(g.Trajectories)), "packed-B/trajectory")
		b.ReportMetric(float64(len(text)/len(g.Trajectories)), "json-B/trajectory")
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := pack.ReadGroup(packed); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchBoth(b *testing.B, bench func(b *testing.B, rdb redis.UniversalClient)) {
	b.Run("embedded", func(b *testing.B) { bench(b, embedded(b)) })
	b.Run("real", func(b *testing.B) { bench(b, redistest.Real(b)) })
}

// BenchmarkCommit commits reference groups; a step is claimed and completed besides for every 8, untimed, so that the
// buffer stays level.
func BenchmarkCommit(b *testing.B) {
	benchBoth(b, func(b *testing.B, rdb redis.UniversalClient) {
		f := open(b, rdb, spec(referenceGroups, 1<<30))
		g := referenceGroup(0)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			g.Ref.Seq = rollout.GroupSeq(n)
			for i := range g.Trajectories {
				t := &g.Trajectories[i]
				t.ID = rollout.EpisodeRef{GroupRef: g.Ref, Sample: t.Sample}.TrajectoryID(t.Agent)
			}
			c, err := f.CommitGroup(f.ctx, g)
			f.ok(err)
			if c != (buffer.Commit{}) {
				b.Fatalf("commit: %+v", c)
			}
			if n%referenceGroups == referenceGroups-1 {
				b.StopTimer()
				step := n / referenceGroups
				_, err := f.ClaimRaw(f.ctx, run, rollout.Step(step), 0, buffer.Share{})
				f.ok(err)
				f.complete(step, 0)
				b.StartTimer()
			}
		}
		b.ReportMetric(perSecond(b), "groups/s")
		a, err := f.Account(f.ctx, run)
		f.ok(err)
		b.ReportMetric(float64(a.GroupBytes)/float64(len(g.Trajectories)), "redis-B/trajectory")
	})
}

func perSecond(b *testing.B) float64 { return float64(b.N) / b.Elapsed().Seconds() }

// BenchmarkClaim claims a reference step: as it is stored, as it is written to a trainer, and unpacked.
func BenchmarkClaim(b *testing.B) {
	benchBoth(b, func(b *testing.B, rdb redis.UniversalClient) {
		f := open(b, rdb, spec(referenceGroups, 1<<30))
		for seq := range referenceGroups {
			_, err := f.CommitGroup(f.ctx, referenceGroup(seq))
			f.ok(err)
		}
		for name, use := range map[string]func(*buffer.RawBatch) error{
			"raw":      func(*buffer.RawBatch) error { return nil },
			"compact":  func(r *buffer.RawBatch) error { return r.WriteCompact(new(bytes.Buffer)) },
			"unpacked": func(r *buffer.RawBatch) error { _, err := r.Batch(); return err },
		} {
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					raw, err := f.ClaimRaw(f.ctx, run, 0, 0, buffer.Share{})
					f.ok(err)
					f.ok(use(raw))
				}
				b.ReportMetric(perSecond(b), "batches/s")
			})
		}
	})
}

// BenchmarkPhase keeps the answers of a phase of seven turns, and the phase: what resuming costs a game.
func BenchmarkPhase(b *testing.B) {
	benchBoth(b, func(b *testing.B, rdb redis.UniversalClient) {
		f := open(b, rdb, spec(referenceGroups, 1<<30))
		f.queue(0, 0)
		played := playJournal(b, f, game(0, 0), 1)
		b.ReportAllocs()
		for b.Loop() {
			for _, power := range powers {
				f.ok(played.answer(power))
			}
			f.ok(played.phase())
		}
		b.ReportMetric(perSecond(b), "phases/s")
	})
}

// BenchmarkPoll is a claim that finds no batch ready, which trainers that wait make again and again.
func BenchmarkPoll(b *testing.B) {
	benchBoth(b, func(b *testing.B, rdb redis.UniversalClient) {
		f := open(b, rdb, spec(referenceGroups, 1<<30))
		f.ready(0, 0, 1, 2, 3, 4, 5, 6)
		for b.Loop() {
			_, err := f.ClaimRaw(f.ctx, run, 0, 0, buffer.Share{})
			f.refused(err, rollout.NotReady)
		}
	})
}

// BenchmarkPollWaiting is such a claim of a run that waits for what would become too stale, with as many groups
// outstanding as a run can have: all of them are looked at.
func BenchmarkPollWaiting(b *testing.B) {
	benchBoth(b, func(b *testing.B, rdb redis.UniversalClient) {
		s := spec(referenceGroups, 1<<30)
		s.Buffer.OnStale = runspec.WaitStale
		f := open(b, rdb, s)
		const ready = runspec.MaxOutstanding / 2
		f.queue(0, runspec.MaxOutstanding-ready-1)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		for seq := runspec.MaxOutstanding - ready; seq < runspec.MaxOutstanding; seq++ {
			f.ready(1, seq)
		}
		for b.Loop() {
			_, err := f.ClaimRaw(f.ctx, run, 0, 0, buffer.Share{})
			f.refused(err, rollout.NotReady)
		}
	})
}

// BenchmarkLongRun sends a million small trajectories through the buffer, once, and reports what Redis and this
// process hold at a tenth of the way and at the end.
func BenchmarkLongRun(b *testing.B) {
	rdb := redistest.Real(b)
	const size = referenceGroups
	g := bigGroup(0, 0, 6, powers, 1, 16, 4)
	steps := 1_000_000 / (size * len(g.Trajectories))
	f := open(b, rdb, spec(size, steps))
	used := func() float64 {
		info, err := rdb.InfoMap(context.Background(), "memory").Result()
		f.ok(err)
		n, err := strconv.ParseFloat(info["Memory"]["used_memory"], 64)
		f.ok(err)
		return n / (1 << 20)
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for b.Loop() {
		for step := range steps {
			for i := range size {
				g.Ref.Seq = rollout.GroupSeq(step*size + i)
				_, err := f.CommitGroup(f.ctx, g)
				f.ok(err)
			}
			_, err := f.ClaimRaw(f.ctx, run, rollout.Step(step), 0, buffer.Share{})
			f.ok(err)
			f.complete(step, 0)
			if step == steps/10 {
				b.ReportMetric(used(), "redis-MiB-at-10%")
				b.ReportMetric(heap(), "heap-MiB-at-10%")
			}
		}
		b.ReportMetric(used(), "redis-MiB")
		b.ReportMetric(heap(), "heap-MiB")
		f.ok(f.rdb.FlushDB(f.ctx).Err())
		f.ok(f.Open(f.ctx, spec(size, steps)))
	}
}
