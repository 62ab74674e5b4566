package buffer_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// departures is how the groups that have left are counted, so that it shows whether long games are lost more often.
var departures = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"by reason and by length": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 99))
		f.departed()
		for step, phases := range [][]int{{0}, {1, 1}, {2, 3}, {4}, {7, 8, 9}, {40_000}, {3}} {
			f.readyLong(step, 0, phases...)
			f.claim(step, 0)
			f.complete(step, 0)
		}
		f.readyLong(7, 0, 16)
		f.ok(f.SetVersion(f.ctx, run, 2, 0)) // too stale in the buffer
		f.queue(8, 9)
		late := group(8, 0)
		late.Phases = []int{5}
		_, err := f.CommitGroup(f.ctx, late) // and as it came
		f.ok(err)
		f.ok(f.Discard(f.ctx, ref(9), "a code of words"))
		f.departed(
			steprecord.LengthCount{Code: steprecord.Trained, Groups: 7,
				ByLength: []int64{1, 1, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
			steprecord.LengthCount{Code: "a code of words", Groups: 1, ByLength: []int64{1}},
			steprecord.LengthCount{Code: "stale", Groups: 2, ByLength: []int64{0, 0, 0, 1, 0, 1}},
		)
		f.refused(f.Discard(f.ctx, ref(10), steprecord.Trained), rollout.Invalid)
	},
	"games that were given up count as far as they came": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 2)
		f.ok(f.SaveCheckpoint(f.ctx, game(0, 0), 1, checkpoint(3, "a")))
		f.ok(f.SaveCheckpoint(f.ctx, game(0, 1), 1, checkpoint(4, "a")))
		f.ok(f.SaveEpisode(f.ctx, game(0, 1), 1, rollout.Episode{Phases: 12}, nil))
		f.ok(f.Discard(f.ctx, ref(0), "hung")) // 3 and 12: 8
		f.ok(f.SaveCheckpoint(f.ctx, game(1, 0), 1, checkpoint(6, "a")))
		_, err := f.CommitGroup(f.ctx, lengthless(1)) // by a worker of an earlier release
		f.ok(err)
		f.claim(0, 0)
		f.complete(0, 0)
		f.departed(
			steprecord.LengthCount{Code: steprecord.Trained, Groups: 1, ByLength: []int64{0, 0, 0, 1}},
			steprecord.LengthCount{Code: "hung", Groups: 1, ByLength: []int64{0, 0, 0, 0, 1}},
		)
	},
	"what is rewound is not trained on twice": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		for step := range 4 {
			f.readyLong(step, 0, 1<<step)
			f.claim(step, 0)
			f.complete(step, 0)
		}
		generation, _ := f.attach(2)
		f.departed(steprecord.LengthCount{Code: steprecord.Trained, Groups: 2, ByLength: []int64{0, 1, 1}})
		for range 2 {
			generation, _ = f.attach(2)
		}
		for step := 2; step < 4; step++ {
			f.claim(step, generation)
			f.complete(step, generation)
		}
		f.departed(steprecord.LengthCount{Code: steprecord.Trained, Groups: 4, ByLength: []int64{0, 1, 1, 1, 1}})
	},
	"steps of an earlier release can be rewound": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.readyLong(0, 0, 5)
		f.claim(0, 0)
		f.complete(0, 0)
		f.ok(rdb.HDel(f.ctx, "millrace:{demo}:group:0", "left", "len").Err())
		f.ok(rdb.Del(f.ctx, "millrace:{demo}:departures").Err())
		generation, _ := f.attach(0)
		f.departed()
		f.complete(0, generation)
		f.departed(steprecord.LengthCount{Code: steprecord.Trained, Groups: 1, ByLength: []int64{1}})
	},
}

func TestDepartures(t *testing.T) {
	t.Parallel()
	conform(t, departures)
}

// readyLong commits a group whose games were so long.
func (f *fixture) readyLong(seq int, version rollout.PolicyVersion, phases ...int) {
	f.t.Helper()
	g := group(seq, version)
	g.Phases = phases
	c, err := f.CommitGroup(f.ctx, g)
	f.ok(err)
	expect(f.t, "commit", c, buffer.Commit{})
}

func lengthless(seq int) *rollout.Group {
	g := group(seq, 0)
	g.Phases = nil
	return g
}

func (f *fixture) departed(want ...steprecord.LengthCount) {
	f.t.Helper()
	got, err := f.Departures(f.ctx, run)
	f.ok(err)
	expect(f.t, "departures", got, append([]steprecord.LengthCount{}, want...))
}
