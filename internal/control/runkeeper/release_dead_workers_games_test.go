package runkeeper

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
)

// place is a registry, a buffer with two runs, and Temporal, as AbsentWorkers sees them.
type place struct {
	mu       sync.Mutex
	states   map[string]enginestate.WorkerState
	history  string
	redis    error
	temporal error
	forgot   bool                        // Redis does not know of the groups in flight
	perStep  int                         // groups of a step of run a
	games    map[rollout.GroupSeq]string // groups of run a, with the worker that plays each
	released map[rollout.GroupSeq]time.Duration
	looked   int // at groups
	began    time.Time
}

func (p *place) List(context.Context) ([]enginestate.Worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var workers []enginestate.Worker
	for id, state := range p.states {
		workers = append(workers, enginestate.Worker{ID: id, State: state})
	}
	return workers, p.redis
}

func (p *place) History(context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.history, p.redis
}

func (p *place) RecentlyActive(context.Context) ([]runstatus.RunStatus, error) {
	limits := runspec.BufferSpec{Depth: 2, GroupsPerStep: p.perStep}
	return []runstatus.RunStatus{{Spec: runspec.Spec{Name: "a", Buffer: limits}}, {Spec: runspec.Spec{Name: "b"}}}, nil
}

func (p *place) Account(context.Context, rollout.RunName) (buffer.Account, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	account := buffer.Account{Queued: []rollout.GroupSeq{7}, Ready: []rollout.GroupSeq{4}, Highest: 7}
	if !p.forgot {
		account.InFlight = []rollout.GroupSeq{5, 6}
	}
	return account, nil
}

func (p *place) ReleaseGames(_ context.Context, ref rollout.GroupRef, gone func(string) bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked++
	if p.temporal != nil {
		return 0, p.temporal
	}
	if worker, plays := p.games[ref.Seq]; !plays || ref.Run != "a" || !gone(worker) {
		return 0, nil
	}
	delete(p.games, ref.Seq)
	p.released[ref.Seq] = time.Since(p.began)
	return 1, nil
}

func (p *place) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Whoever is absent for three looks in a row has the games of all groups in play released, also when Redis has
// forgotten some of it.
func TestGamesOfAbsentWorkersAreReleased(t *testing.T) {
	t.Parallel()
	const sec = time.Second
	const half = sec / 2
	type times = map[rollout.GroupSeq]time.Duration
	const absent, alive = enginestate.WorkerAbsent, enginestate.WorkerAlive
	for _, tt := range []struct {
		name   string
		events func(p *place)
		want   times
	}{
		{"nobody is gone", func(*place) {}, times{}},
		{"one stopped in order", func(p *place) { p.states["w1"] = enginestate.WorkerStopped }, times{}},
		{"one died", func(p *place) { p.states["w1"] = absent }, times{5: 3 * sec, 7: 3 * sec}},
		{"it was not heard of for a moment", func(p *place) {
			p.states["w1"] = absent
			p.after(2*sec+half, func() { p.states["w1"] = alive })
		}, times{}},
		{"Redis does not answer meanwhile", func(p *place) {
			p.states["w1"] = absent
			p.after(2*sec+half, func() { p.redis = errors.New("loading") })
			p.after(3*sec+half, func() { p.redis = nil })
		}, times{5: 6 * sec, 7: 6 * sec}},
		{"Temporal does not answer", func(p *place) {
			p.states["w1"], p.temporal = absent, errors.New("unavailable")
			p.after(4*sec+half, func() { p.temporal = nil })
		}, times{5: 5 * sec, 7: 5 * sec}},
		{"another one dies later", func(p *place) {
			p.states["w1"] = absent
			p.after(9*sec+half, func() { p.states["w2"] = absent })
		}, times{5: 3 * sec, 7: 3 * sec, 6: 12 * sec}},
		{"the account came back older, without some groups", func(p *place) {
			p.states["w1"], p.forgot = absent, true
			p.after(10*sec+half, func() { p.forgot = false })
		}, times{7: 3 * sec, 5: 12 * sec}},
		{"Redis came back older, without the worker and some groups, and never hears of them again", func(p *place) {
			p.perStep, p.games[8] = 2, "w1"
			p.after(1*sec+half, func() { delete(p.states, "w1"); p.history, p.forgot = "promoted", true })
		}, times{5: 4 * sec, 7: 4 * sec, 8: 4 * sec}},
		{"Temporal gives a game to a worker that has just died", func(p *place) {
			p.states["w1"] = absent
			p.after(5*sec+half, func() { p.games[5] = "w1" })
		}, times{7: 3 * sec, 5: 6 * sec}},
		{"Redis came back older, without the worker", func(p *place) {
			p.after(1*sec+half, func() { delete(p.states, "w1"); p.history = "promoted" })
		}, times{5: 4 * sec, 7: 4 * sec}},
		{"Redis came back older, and the worker announces itself again", func(p *place) {
			p.after(1*sec+half, func() { delete(p.states, "w1"); p.history = "promoted" })
			p.after(2*sec+half, func() { p.states["w1"] = alive })
		}, times{}},
		{"Redis has forgotten a worker whom nobody here has seen", func(p *place) {
			delete(p.states, "w1")
		}, times{5: 10 * sec, 7: 10 * sec}},
		{"and so it has later", func(p *place) {
			p.after(20*sec+half, func() { p.history, p.games[4] = "promoted", "unseen"; p.games[6] = "unseen" })
		}, times{6: 30 * sec}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{
					games: map[rollout.GroupSeq]string{5: "w1", 6: "w2", 7: "w1"}, released: times{}, began: time.Now(),
					states: map[string]enginestate.WorkerState{"w1": alive, "w2": alive}, history: "first",
				}
				a := &AbsentWorkers{Workers: p, Redis: p, Runs: p, Groups: p, Log: slog.New(slog.DiscardHandler)}
				tt.events(p)
				ctx, end := context.WithTimeout(t.Context(), time.Hour+half)
				defer end()
				a.Watch(ctx)
				if !maps.Equal(p.released, tt.want) {
					t.Errorf("released at %v, want at %v", p.released, tt.want)
				}
				if most := 100; p.looked > most {
					t.Errorf("groups were looked at %d times in an hour, want %d at most", p.looked, most)
				}
			})
		})
	}
}

// after has something happen after a while.
func (p *place) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() { p.set(f) })
}
