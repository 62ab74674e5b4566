package buffer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim/buffermodel"
	"github.com/millrace/millrace/internal/store/buffer"
)

// TestSimulatedBuffer makes the same random calls to the scripts and to the model by which runs are simulated: the
// account, the batches with what the records say of them, the drops and the departures are the same.
func TestSimulatedBuffer(t *testing.T) {
	t.Parallel()
	for seed := range seeds(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			compareBuffers(t, embedded(t), rand.New(rand.NewPCG(seed, 2)))
		})
	}
}

func compareBuffers(t *testing.T, rdb redis.UniversalClient, rng *rand.Rand) {
	t.Helper()
	s := spec(1+rng.IntN(3), 30)
	b := &s.Buffer
	b.OnStale, b.MaxStaleness, b.Depth = onStale[rng.IntN(3)], int64(rng.IntN(3)), 1+rng.IntN(3)
	b.Order = []runspec.BatchOrder{runspec.StartOrder, runspec.FinishOrder}[rng.IntN(2)]
	b.Prefill = []runspec.Prefill{runspec.PrefillFull, runspec.PrefillBatch}[rng.IntN(2)]
	b.MaxBytes = int64(rng.IntN(2) * (1 + rng.IntN(8*size(t, group(0, 0)))))
	f := open(t, rdb, s)
	var drops []string
	m := buffermodel.New(s.Buffer, s.Steps, 2, func(seq rollout.GroupSeq, code rollout.Code) {
		drops = append(drops, fmt.Sprintf("%s %s", ref(int(seq)), code))
	})
	last, next, granted := 0, rollout.Step(0), rollout.Step(0)
	for range 500 {
		seq := rollout.GroupSeq(max(0, last-rng.IntN(8)))
		version := max(0, m.Version()-rollout.PolicyVersion(rng.IntN(3)))
		switch rng.IntN(12) {
		case 0, 1, 2:
			last++
			seq = rollout.GroupSeq(last)
			_, err := f.Queue(f.ctx, ref(last), []byte("x"), version, start)
			f.ok(err)
			m.Queue(seq, version)
		case 3, 4:
			err := f.Start(f.ctx, ref(int(seq)))
			expect(t, "start", m.Start(seq), !rollout.Refused(err, rollout.Fenced))
		case 5, 6, 7:
			g := group(int(seq), version)
			got, err := f.CommitGroup(f.ctx, g)
			f.ok(err)
			view := steprecord.ViewOf(g)
			code, fresh := m.Commit(buffermodel.Ready{
				Seq: seq, Min: version, Trajectories: len(g.Trajectories), Bytes: int64(size(t, g)),
				ZeroVariance: view.ZeroVariance, Length: mean(g.Phases), View: &view,
			})
			expect(t, "commit", got, buffer.Commit{Duplicate: !fresh, Dropped: code})
		case 8:
			if rng.IntN(3) > 0 {
				continue
			}
			err := f.Discard(f.ctx, ref(int(seq)), "test")
			expect(t, "discard", m.Discard(seq, "test", 0), !rollout.Refused(err, rollout.Conflict))
		case 9:
			if rng.IntN(3) > 0 {
				continue
			}
			got, err := f.Release(f.ctx, ref(int(seq)), "released")
			f.ok(err)
			expect(t, "release", m.Release(seq, "released"), got)
		case 10:
			_, err := f.Claim(f.ctx, run, granted, 0, buffer.Share{})
			batch, failed := m.Claim(granted, time.Time{}.Add(time.Second))
			compareClaims(t, f, granted, err, batch, failed)
			if failed == nil {
				granted++
			}
		default:
			if next == granted {
				continue
			}
			f.complete(int(next), 0)
			f.ok(m.Complete(next))
			next++
			f.ok(f.SetVersion(f.ctx, run, m.Version()+1, 0))
			m.SetVersion(m.Version() + 1)
		}
		compareAccounts(t, f, m)
		if t.Failed() {
			t.Fatalf("limits %+v, at step %d of %d claimed", s.Buffer, next, granted)
		}
	}
	for _, drop := range f.stale() { // the store tells of those that became too stale
		if !slices.Contains(drops, drop) {
			t.Errorf("%s was dropped, and is not in the simulation", drop)
		}
	}
	if granted < 3 {
		t.Errorf("only %d batches were claimed", granted)
	}
}

// compareClaims compares a batch with what the record says of it.
func compareClaims(t *testing.T, f *fixture, step rollout.Step, err error, batch *buffermodel.Batch, failed error) {
	t.Helper()
	waits := errors.Is(failed, buffermodel.ErrNotReady)
	if (err == nil) != (failed == nil) || rollout.Refused(err, rollout.NotReady) != waits {
		t.Errorf("step %d: claimed %v, simulated %v", step, err, failed)
	}
	if err != nil || failed != nil {
		return
	}
	record, err := f.Step(f.ctx, run, step)
	f.ok(err)
	want, got := record.Service, batch.View
	for _, v := range []*steprecord.ServiceView{&want, &got} {
		v.FirstAskedAt, v.GrantedAt, v.CompletedAt = time.Time{}, time.Time{}, time.Time{}
	}
	expect(t, fmt.Sprintf("view of step %d", step), asJSON(t, got), asJSON(t, want))
}

func compareAccounts(t *testing.T, f *fixture, m *buffermodel.Buffer) {
	t.Helper()
	a, err := f.Account(f.ctx, run)
	f.ok(err)
	got := m.Account()
	expect(t, "counts", m.Counts(), a.Counts)
	for state, both := range map[string][2][]rollout.GroupSeq{
		"queued": {got.Queued, a.Queued}, "in flight": {got.InFlight, a.InFlight}, "ready": {got.Ready, a.Ready},
	} {
		expect(t, state, fmt.Sprint(both[0]), fmt.Sprint(both[1]))
	}
	expect(t, "highest, claimed, completed, version, bytes",
		fmt.Sprint(got.Highest, got.Claimed, got.Completed, got.Version, got.Bytes, got.GroupBytes),
		fmt.Sprint(a.Highest, a.ClaimedTo, a.NextStep, a.Version, a.Counts.Bytes, a.GroupBytes))
	departures, err := f.Departures(f.ctx, run)
	f.ok(err)
	expect(t, "departures", asJSON(t, m.Departures()), asJSON(t, departures))
}
