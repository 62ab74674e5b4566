package runkeeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// place is a registry, a buffer with two runs, and Temporal, as AbsentWorkers sees them.
type place struct {
	mu       sync.Mutex
	states   map[string]rollout.WorkerState
	redis    error
	temporal error
	released []time.Duration // when
	groups   map[rollout.GroupRef]int
	of       []string // workers whose games were asked for
	began    time.Time
}

func (p *place) List(context.Context) ([]rollout.Worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var workers []rollout.Worker
	for id, state := range p.states {
		workers = append(workers, rollout.Worker{ID: id, State: state})
	}
	return workers, p.redis
}

func (p *place) Active(context.Context) ([]rollout.RunStatus, error) {
	return []rollout.RunStatus{{Spec: rollout.Spec{Name: "a"}}, {Spec: rollout.Spec{Name: "b"}}}, nil
}

func (p *place) Account(context.Context, rollout.RunName) (buffer.Account, error) {
	return buffer.Account{Queued: []rollout.GroupSeq{7}, InFlight: []rollout.GroupSeq{5, 6}, Ready: []rollout.GroupSeq{4}},
		nil
}

func (p *place) ReleaseGames(_ context.Context, ref rollout.GroupRef, gone func(string) bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.temporal != nil {
		return 0, p.temporal
	}
	p.groups[ref]++
	if len(p.released) == 0 || p.released[len(p.released)-1] != time.Since(p.began) {
		p.released = append(p.released, time.Since(p.began))
	}
	for id := range p.states {
		if gone(id) && !slices.Contains(p.of, id) {
			p.of = append(p.of, id)
		}
	}
	return 2, nil
}

func (p *place) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Whoever is absent for three looks in a row has its games released, once, of all groups in play.
func TestGamesOfAbsentWorkersAreReleased(t *testing.T) {
	t.Parallel()
	const sec = time.Second
	for _, tt := range []struct {
		name   string
		events func(p *place)
		want   []time.Duration
	}{
		{"nobody is gone", func(*place) {}, nil},
		{"one stopped in order", func(p *place) { p.states["w1"] = rollout.WorkerStopped }, nil},
		{"one died", func(p *place) { p.states["w1"] = rollout.WorkerAbsent }, []time.Duration{3 * sec}},
		{"it was not heard of for a moment", func(p *place) {
			p.states["w1"] = rollout.WorkerAbsent
			time.AfterFunc(2500*time.Millisecond, func() { p.set(func() { p.states["w1"] = rollout.WorkerAlive }) })
		}, nil},
		{"Redis does not answer meanwhile", func(p *place) {
			p.states["w1"] = rollout.WorkerAbsent
			time.AfterFunc(2500*time.Millisecond, func() { p.set(func() { p.redis = errors.New("loading") }) })
			time.AfterFunc(3500*time.Millisecond, func() { p.set(func() { p.redis = nil }) })
		}, []time.Duration{6 * sec}},
		{"Temporal does not answer", func(p *place) {
			p.states["w1"], p.temporal = rollout.WorkerAbsent, errors.New("unavailable")
			time.AfterFunc(5500*time.Millisecond, func() { p.set(func() { p.temporal = nil }) })
		}, []time.Duration{6 * sec}},
		{"another one dies later", func(p *place) {
			p.states["w1"] = rollout.WorkerAbsent
			time.AfterFunc(9500*time.Millisecond, func() { p.set(func() { p.states["w2"] = rollout.WorkerAbsent }) })
		}, []time.Duration{3 * sec, 12 * sec}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{groups: map[rollout.GroupRef]int{}, began: time.Now(), states: map[string]rollout.WorkerState{
					"w1": rollout.WorkerAlive, "w2": rollout.WorkerAlive,
				}}
				a := &AbsentWorkers{Workers: p, Runs: p, Groups: p, Log: slog.New(slog.DiscardHandler)}
				tt.events(p)
				ctx, end := context.WithTimeout(t.Context(), 30*sec)
				defer end()
				a.Watch(ctx)
				if !slices.Equal(p.released, tt.want) || len(p.of) != len(tt.want) {
					t.Errorf("released at %v of %v, want at %v", p.released, p.of, tt.want)
				}
				for ref, times := range p.groups {
					if ref.Seq == 4 || times != len(tt.want) {
						t.Errorf("group %v was looked at %d times", ref, times)
					}
				}
				if groups := 6; len(tt.want) > 0 && len(p.groups) != groups {
					t.Errorf("%d groups, want %d", len(p.groups), groups)
				}
			})
		})
	}
}
