package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/store/redistest"
)

// Work is read from where it was read last, once; of a Redis that was lost, from what there is now.
func TestWorkSince(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rdb := redistest.Real(t)
	s := NewSampler(rdb, "work")
	begin := time.UnixMilli(1e12)
	record := func(sec int, output float64) {
		t.Helper()
		row := engineStretch{Engine: "a", Work: Work{Sec: 5, Running: 20, Waiting: 5, Limit: 50, Input: 300,
			Cached: 100, Output: output, Crowded: 4}}
		if err := s.RecordEngines(ctx, begin.Add(time.Duration(sec)*time.Second), []engineStretch{row}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(after string, want Work) string {
		t.Helper()
		done, newest, err := s.WorkSince(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		if done["a"] != want {
			t.Errorf("since %q: got %+v, want %+v", after, done["a"], want)
		}
		return newest
	}
	if newest := read("", Work{}); newest != "" {
		t.Errorf("of nothing: %q", newest)
	}
	record(5, 100)
	first := read("", Work{})
	record(10, 200)
	record(15, 300)
	second := read(first, Work{Sec: 10, Running: 40, Waiting: 10, Limit: 100, Input: 600, Cached: 200, Output: 500,
		Crowded: 8})
	read(second, Work{})
	if err := rdb.Del(ctx, s.key+":engines").Err(); err != nil {
		t.Fatal(err)
	}
	record(7, 400)
	third := read(second, Work{})
	record(12, 500)
	read(third, Work{Sec: 5, Running: 20, Waiting: 5, Limit: 50, Input: 300, Cached: 100, Output: 500, Crowded: 4})
}

// An engine is crowded while requests wait inside of it, and not by the few that have just come.
func TestCrowdedEngines(t *testing.T) {
	t.Parallel()
	room := enginestate.EngineLoad{Running: 40, Waiting: 2, WindowSec: 2}
	queue := enginestate.EngineLoad{Running: 4, Waiting: 8, WindowSec: 2}
	var e engineStretch
	for _, looks := range [][2]enginestate.EngineLoad{{{}, room}, {room, queue}, {queue, queue}, {queue, room}} {
		e.add(looks[0], looks[1], 100)
	}
	if e.Sec != 8 || e.Crowded != 4 || e.part(0.5).Crowded != 2 {
		t.Errorf("crowded for %v s of %v", e.Crowded, e.Sec)
	}
}
