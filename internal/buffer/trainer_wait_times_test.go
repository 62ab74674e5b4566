package buffer_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// TestWaitedWithin counts the seconds of a window in which a trainer waited, over all its waits.
func TestWaitedWithin(t *testing.T) {
	t.Parallel()
	at := func(sec int) time.Time { return start.Add(time.Duration(sec) * time.Second) }
	for _, tt := range []struct {
		name  string
		asked buffer.Asked
		want  int // seconds of those from 100 to 110
	}{
		{"nobody asks", buffer.Asked{}, 0},
		{"still waiting, since before the window", buffer.Asked{First: at(90), Last: at(109)}, 10},
		{"still waiting, since within it", buffer.Asked{First: at(104), Last: at(109)}, 6},
		{"a wait that ended within it", buffer.Asked{Granted: []buffer.Grant{{Asked: at(90), At: at(103)}}}, 3},
		{"a wait that ended before it", buffer.Asked{Granted: []buffer.Grant{{Asked: at(90), At: at(99)}}}, 0},
		{"two that ended, one that goes on", buffer.Asked{First: at(108), Last: at(109), Granted: []buffer.Grant{
			{Asked: at(105), At: at(106)}, {Asked: at(101), At: at(103)}}}, 5},
		{"a trainer that went away", buffer.Asked{First: at(90), Last: at(95)}, 0},
		{"a record of an older version, which kept no last", buffer.Asked{First: at(90)}, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.asked.Within(at(100), at(110)); got != time.Duration(tt.want)*time.Second {
				t.Errorf("%v, want %d s", got, tt.want)
			}
		})
	}
}

// TestAsked: a trainer is known to wait until its batch is granted, or until another process takes over.
func TestAsked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 3))
		see := func(step rollout.Step, waits bool, grants int) {
			t.Helper()
			a, err := f.Asked(f.ctx, run)
			f.ok(err)
			if a.Step != step || a.Waiting(a.Last) != waits || len(a.Granted) != grants {
				t.Fatalf("%+v, want step %d, waits %v, %d grants", a, step, waits, grants)
			}
		}
		ask := func(step, generation int) {
			t.Helper()
			_, err := f.Claim(f.ctx, run, rollout.Step(step), rollout.TrainerGeneration(generation), buffer.Share{})
			f.refused(err, rollout.NotReady)
		}
		see(0, false, 0)
		ask(0, 0)
		ask(0, 0)
		see(0, true, 0)
		f.ready(0, 0)
		f.claim(0, 0)
		see(1, false, 1)
		ask(1, 0)
		see(1, true, 1)
		_, _, err := f.Attach(f.ctx, run, nil)
		f.ok(err)
		see(1, false, 1)
	})
}
