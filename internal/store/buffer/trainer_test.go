package buffer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// trainers is what trainer processes that die and come back can rely on.
var trainers = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"a late process with an old checkpoint does not undo a run that is over": func(t *testing.T,
		rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 2))
		f.ready(0, 0, 1)
		one, _ := f.attach(-1)
		for k := range 2 {
			f.claim(k, one)
			f.complete(k, one)
		}
		f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 2), State: runstatus.RunCompleted, NextStep: 2}, 0))
		zero := rollout.Step(0)
		_, _, err := f.Attach(f.ctx, run, &zero)
		f.refused(err, rollout.RunOver)
		two, next := f.attach(2)
		expect(t, "a process that has come as far as the run", []int{two, next}, []int{2, 2})
	},
	"a new process fences off the old one": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ready(0, 0, 1)
		one, next := f.attach(-1)
		expect(t, "first process", []int{one, next}, []int{1, 0})
		first := asJSON(t, f.claim(0, one))
		two, next := f.attach(-1)
		expect(t, "second process", []int{two, next}, []int{2, 0})

		_, err := f.Claim(f.ctx, run, 0, rollout.TrainerGeneration(one), buffer.Share{})
		f.refused(err, rollout.Fenced)
		_, _, err = f.Complete(f.ctx, run, 0, rollout.TrainerGeneration(one), report(0), steprecord.FleetView{})
		f.refused(err, rollout.Fenced)
		f.refused(f.SetVersion(f.ctx, run, 1, rollout.TrainerGeneration(one)), rollout.Fenced)
		_, err = f.Claim(f.ctx, run, 0, 3, buffer.Share{}) // a generation never given
		f.refused(err, rollout.Fenced)

		expect(t, "same batch", asJSON(t, f.claim(0, two)), first)
		expect(t, "record", f.complete(0, two).Generation, rollout.TrainerGeneration(2))
	},
	"a rewind gives the same batches again, as far as they are kept": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ready(0, 0, 1, 2, 3, 4)
		var given []string
		for step := range 4 {
			given = append(given, asJSON(t, f.claim(step, 0)))
			f.complete(step, 0)
		}
		ahead := asJSON(t, f.claim(4, 0))
		expect(t, "before", f.counts(), steprecord.BufferCounts{Claimed: 1, Completed: 4})

		one := rollout.Step(1)
		_, _, err := f.Attach(f.ctx, run, &one)
		f.refused(err, rollout.NotRetained)
		_, err = f.Claim(f.ctx, run, 1, 0, buffer.Share{})
		f.refused(err, rollout.NotRetained)

		generation, next := f.attach(2)
		expect(t, "rewound", []int{generation, next}, []int{1, 2})
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Claimed: 3, Completed: 2})
		record, err := f.Step(f.ctx, run, 2)
		f.ok(err)
		expect(t, "done", record.Done, false)
		for step := 2; step < 4; step++ {
			expect(t, "same batch", asJSON(t, f.claim(step, generation)), given[step])
			_, fresh, err := f.Complete(f.ctx, run, rollout.Step(step), rollout.TrainerGeneration(generation), report(100+step),
				steprecord.FleetView{})
			f.ok(err)
			expect(t, "another report is fresh", fresh, true)
		}
		expect(t, "the step claimed ahead", asJSON(t, f.claim(4, generation)), ahead)
		expect(t, "after", f.counts(), steprecord.BufferCounts{Claimed: 1, Completed: 4})
	},
	"a process cannot resume from a step that is not reached": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ready(0, 0, 1)
		f.claim(0, 0)
		f.claim(1, 0)
		for _, step := range []rollout.Step{1, 2, 7} {
			_, _, err := f.Attach(f.ctx, run, &step)
			f.refused(err, rollout.OutOfOrder)
		}
		step := rollout.Step(-1)
		_, _, err := f.Attach(f.ctx, run, &step)
		f.refused(err, rollout.Invalid)
		f.complete(0, 0) // the refusals left the old process in charge
	},
	"a run that is over gives out what it gave out": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 2))
		f.ready(0, 0, 1)
		first := asJSON(t, f.claim(0, 0))
		f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 2), State: runstatus.RunStopped}, 0))
		expect(t, "claimed before", asJSON(t, f.claim(0, 0)), first)
		_, err := f.Claim(f.ctx, run, 1, 0, buffer.Share{})
		f.refused(err, rollout.RunOver)
		f.complete(0, 0)
	},
	"data goes when it cannot be asked for again": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 100))
		var level int64
		for step := range 10 {
			f.ready(0, 2*step, 2*step+1)
			f.claim(step, 0)
			f.complete(step, 0)
			c, err := f.Counts(f.ctx, run)
			f.ok(err)
			if step == 3 {
				level = c.Bytes
			}
			if step > 3 && (c.Bytes < level/2 || c.Bytes > level*2) {
				t.Errorf("step %d: %d bytes, after step 3 there were %d", step, c.Bytes, level)
			}
		}
		_, err := f.Game(f.ctx, rollout.EpisodeRef{GroupRef: ref(0)})
		f.refused(err, rollout.NotRetained)
	},
}

func TestTrainers(t *testing.T) {
	t.Parallel()
	conform(t, trainers)
}

// attach announces a process; a negative step is none.
func (f *fixture) attach(from int) (generation, next int) {
	f.t.Helper()
	var resume *rollout.Step
	if from >= 0 {
		step := rollout.Step(from)
		resume = &step
	}
	e, n, err := f.Attach(f.ctx, run, resume)
	f.ok(err)
	return int(e), int(n)
}

// TestSharesOfRanks claims steps in shares, for worlds of every size up to more ranks than trajectories, while
// trainers come and rewind: the shares of a step's ranks are the batch, cut without gap or overlap, and each is the
// same whenever it is asked for.
func TestSharesOfRanks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		const steps, perGroup = 5, 4
		f := open(t, rdb, spec(2, steps))
		rng := rand.New(rand.NewPCG(3, 3))
		worlds := []int{1, 2, 3, 5, 2*perGroup - 1, 2 * perGroup, 2*perGroup + 1, 5 * perGroup}
		given := map[string]string{} // step and share -> its first answer
		generation, next, claimed := 0, 0, 0
		for moves := 0; next < steps && moves < 400; moves++ {
			switch rng.IntN(6) {
			case 0:
				generation, next = f.attach(max(0, next-rng.IntN(3)))
			case 1, 2:
				if next < claimed {
					f.complete(next, generation)
					next++
				}
			default:
				step := min(next+rng.IntN(2), steps-1, claimed)
				if step == claimed {
					f.ready(0, 2*step, 2*step+1)
					claimed++
				}
				f.shared(step, generation, worlds[rng.IntN(len(worlds))], given)
			}
		}
		expect(t, "steps", next, steps)
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Completed: 2 * steps})
	})
}

// shared claims a step by all ranks of a world, in any order, and compares with the whole batch.
func (f *fixture) shared(step, generation, world int, given map[string]string) {
	f.t.Helper()
	whole := ids(f.claim(step, generation))
	parts := make([][]string, world)
	for _, rank := range rand.New(rand.NewPCG(uint64(step), uint64(world))).Perm(world) {
		b, err := f.Claim(f.ctx, run, rollout.Step(step), rollout.TrainerGeneration(generation),
			buffer.Share{Rank: rank, World: world})
		f.ok(err)
		name, answer := fmt.Sprintf("step %d, rank %d of %d", step, rank, world), asJSON(f.t, b)
		if before, asked := given[name]; asked && before != answer {
			f.t.Errorf("%s is another share than before", name)
		}
		given[name] = answer
		parts[rank] = ids(b)
		if n := len(parts[rank]); n != len(whole)/world && n != (len(whole)+world-1)/world {
			f.t.Errorf("%s has %d of %d trajectories", name, n, len(whole))
		}
	}
	expect(f.t, fmt.Sprintf("step %d by %d ranks", step, world), slices.Concat(parts...), whole)
}
