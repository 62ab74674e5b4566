// Package contract tests the contract of every provider. An order that is repeated, given by several callers at once,
// or given by one that died in between, gets one engine. A stopped engine is gone. Nothing of another deployment is
// seen or touched. No call outlives its context. Each provider's tests run it.
//
// Start reading at Run.
package contract

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Subject is a provider under test, with control over its surroundings.
type Subject struct {
	// Open opens the provider of a deployment as another process would: it shares nothing in memory with providers
	// opened before.
	Open func(t testing.TB, deployment string) provider.Provider
	// Running counts what really runs under an id, by other means than the provider's.
	Running func(t testing.TB, deployment string, id rollout.EngineID) int
	// Fail has an engine that runs end by itself.
	Fail func(t testing.TB, deployment string, id rollout.EngineID)
	// Full has engines that are started from now on stay pending, until free is called. nil: there is always room.
	Full func(t testing.TB) (free func())
	// Hang has whatever the provider calls not answer, until resume is called. nil: it calls nothing that may hang.
	Hang func(t testing.TB) (resume func())
	// Within is how long what was asked for may take to be so; 0: a minute.
	Within time.Duration
}

// deployment is whose engines most tests start.
const deployment = "ours"

// Run runs the suite, each test with a Subject of its own.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"an engine is started, listed with its address, and stopped", life},
		{"an order that is repeated gets one engine", repeatedStart},
		{"callers at the same time get one engine", callersAtOnce},
		{"a caller that gives up leaves one engine or none", abandonedStart},
		{"an engine that ended by itself is listed with its reason, until it is stopped", failedEngine},
		{"stopping is repeated, and nothing is stopped that is not there", repeatedStop},
		{"an id may be used again once its engine was stopped", idAgain},
		{"an engine is stopped while it is started", stopDuringStart},
		{"engines of another deployment are neither listed nor stopped", anotherDeployment},
		{"engines are listed by id", order},
		{"an engine without room is pending with its reason, and runs once there is some", pending},
		{"an engine that is pending can be stopped", stopPending},
		{"a call ends with its context", bounded},
		{"a context that is over has no effect", contextOver},
		{"an id that would leave its place is refused or kept apart", hostileIDs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			if s.Within == 0 {
				s.Within = time.Minute
			}
			tt.test(t, &bench{Subject: s})
		})
	}
}

// bench is a Subject with what the tests do to it.
type bench struct {
	Subject
}

func (b *bench) open(t testing.TB) provider.Provider { return b.Open(t, deployment) }

func start(t testing.TB, p provider.Provider, ids ...rollout.EngineID) {
	t.Helper()
	for _, id := range ids {
		if err := p.Start(t.Context(), id); err != nil {
			t.Fatalf("start %s: %v", id, err)
		}
	}
}

func stop(t testing.TB, p provider.Provider, ids ...rollout.EngineID) {
	t.Helper()
	for _, id := range ids {
		if err := p.Stop(t.Context(), id); err != nil {
			t.Fatalf("stop %s: %v", id, err)
		}
	}
}

func list(t testing.TB, p provider.Provider) []provider.Instance {
	t.Helper()
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return all
}

// await lists until ok, and is what was listed last.
func (b *bench) await(
	t testing.TB, p provider.Provider, what string, ok func([]provider.Instance) bool,
) []provider.Instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), b.Within)
	defer cancel()
	for {
		all, err := p.List(ctx)
		if err != nil {
			t.Fatalf("list, waiting for %s: %v", what, err)
		}
		if ok(all) {
			return all
		}
		select {
		case <-ctx.Done():
			t.Fatalf("within %s there was not %s; listed: %+v", b.Within, what, all)
		case <-time.After(20 * time.Millisecond): // others' clocks are not ours
		}
	}
}

// running waits until an engine runs.
func (b *bench) running(t testing.TB, p provider.Provider, id rollout.EngineID) provider.Instance {
	t.Helper()
	all := b.await(t, p, fmt.Sprintf("engine %s running, with its address", id), func(all []provider.Instance) bool {
		e, ok := find(all, id)
		return ok && e.State == enginestate.EngineRunning && e.URL != ""
	})
	e, _ := find(all, id)
	return e
}

// count waits until n engines really run under an id, and then looks a little longer for one too many.
func (b *bench) count(t testing.TB, of string, id rollout.EngineID, n int) {
	t.Helper()
	deadline := time.Now().Add(b.Within)
	for b.Running(t, of, id) != n && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	for range 3 {
		if got := b.Running(t, of, id); got != n {
			t.Fatalf("%d engines run under %s of %s, want %d", got, id, of, n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func find(all []provider.Instance, id rollout.EngineID) (provider.Instance, bool) {
	for _, e := range all {
		if e.ID == id {
			return e, true
		}
	}
	return provider.Instance{}, false
}

func gone(id rollout.EngineID) func([]provider.Instance) bool {
	return func(all []provider.Instance) bool {
		_, there := find(all, id)
		return !there
	}
}

func life(t *testing.T, b *bench) {
	p := b.open(t)
	if all := list(t, p); len(all) != 0 {
		t.Fatalf("engines before any was started: %+v", all)
	}
	before := time.Now()
	start(t, p, "engine-1")
	if e, ok := find(list(t, p), "engine-1"); !ok || e.State == enginestate.EngineFailed {
		t.Fatalf("once its order is taken the engine is listed as %+v", e)
	}
	e := b.running(t, p, "engine-1")
	if e.Since.Before(before.Add(-2*time.Second)) || e.Since.After(time.Now().Add(2*time.Second)) {
		t.Errorf("asked for at %s, which is not now", e.Since)
	}
	if !strings.HasPrefix(e.URL, "http") || strings.HasSuffix(e.URL, "/v1") {
		t.Errorf("address %q, want http://host:port", e.URL)
	}
	b.count(t, deployment, "engine-1", 1)
	if again := b.running(t, b.open(t), "engine-1"); again.URL != e.URL || !again.Since.Equal(e.Since) {
		t.Errorf("another process sees %+v, want %+v", again, e)
	}
	stop(t, p, "engine-1")
	b.await(t, p, "no engine-1", gone("engine-1"))
	b.count(t, deployment, "engine-1", 0)
}

func repeatedStart(t *testing.T, b *bench) {
	p := b.open(t)
	start(t, p, "engine-1", "engine-1")
	e := b.running(t, p, "engine-1")
	start(t, p, "engine-1")
	start(t, b.open(t), "engine-1")
	b.count(t, deployment, "engine-1", 1)
	if again := b.running(t, p, "engine-1"); again.URL != e.URL {
		t.Errorf("the engine moved from %s to %s", e.URL, again.URL)
	}
	if all := list(t, p); len(all) != 1 {
		t.Errorf("listed: %+v", all)
	}
	stop(t, p, "engine-1")
	b.count(t, deployment, "engine-1", 0)
}

func callersAtOnce(t *testing.T, b *bench) {
	ids := []rollout.EngineID{"engine-1", "engine-2", "engine-3"}
	var wg sync.WaitGroup
	for range 4 {
		p := b.open(t)
		for _, id := range ids {
			wg.Go(func() {
				if err := p.Start(t.Context(), id); err != nil {
					t.Errorf("start %s: %v", id, err)
				}
			})
		}
	}
	wg.Wait()
	p, urls := b.open(t), map[string]bool{}
	for _, id := range ids {
		urls[b.running(t, p, id).URL] = true
		b.count(t, deployment, id, 1)
	}
	if len(urls) != len(ids) {
		t.Errorf("%d engines have the addresses %v", len(ids), urls)
	}
	for range 4 {
		p := b.open(t)
		for _, id := range ids {
			wg.Go(func() {
				if err := p.Stop(t.Context(), id); err != nil {
					t.Errorf("stop %s: %v", id, err)
				}
			})
		}
	}
	wg.Wait()
	for _, id := range ids {
		b.await(t, p, "no "+string(id), gone(id))
		b.count(t, deployment, id, 0)
	}
}

func abandonedStart(t *testing.T, b *bench) {
	for i, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond,
		30 * time.Millisecond} {
		id := rollout.EngineID(fmt.Sprintf("engine-%d", i))
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_ = b.open(t).Start(ctx, id) // whether it had an effect is not known
		cancel()
		p := b.open(t)
		start(t, p, id)
		b.running(t, p, id)
		b.count(t, deployment, id, 1)
		stop(t, p, id)
		b.count(t, deployment, id, 0)
	}
}

func failedEngine(t *testing.T, b *bench) {
	p := b.open(t)
	start(t, p, "engine-1")
	b.running(t, p, "engine-1")
	b.Fail(t, deployment, "engine-1")
	failed := func(all []provider.Instance) bool {
		e, ok := find(all, "engine-1")
		return ok && e.State == enginestate.EngineFailed
	}
	e, _ := find(b.await(t, p, "engine-1 failed", failed), "engine-1")
	if e.Reason == "" {
		t.Error("nothing says why it failed")
	}
	b.await(t, b.open(t), "engine-1 failed, for another process", failed)
	start(t, p, "engine-1") // the order was carried out once, and is not again
	b.await(t, p, "engine-1 failed still", failed)
	b.count(t, deployment, "engine-1", 0)
	stop(t, p, "engine-1")
	b.await(t, p, "no engine-1", gone("engine-1"))
}

func repeatedStop(t *testing.T, b *bench) {
	p := b.open(t)
	start(t, p, "engine-1", "engine-2")
	b.running(t, p, "engine-1")
	b.running(t, p, "engine-2")
	stop(t, p, "engine-1", "engine-1", "never-started")
	stop(t, b.open(t), "engine-1")
	b.await(t, p, "no engine-1", gone("engine-1"))
	b.count(t, deployment, "engine-1", 0)
	b.count(t, deployment, "engine-2", 1)
	stop(t, p, "engine-2")
}

func idAgain(t *testing.T, b *bench) {
	p := b.open(t)
	for range 2 {
		start(t, p, "engine-1")
		b.running(t, p, "engine-1")
		b.count(t, deployment, "engine-1", 1)
		stop(t, p, "engine-1")
		b.await(t, p, "no engine-1", gone("engine-1"))
		b.count(t, deployment, "engine-1", 0)
	}
}

func stopDuringStart(t *testing.T, b *bench) {
	p := b.open(t)
	for range 5 {
		var wg sync.WaitGroup
		wg.Go(func() { _ = p.Start(t.Context(), "engine-1") }) // it may be stopped under its hands
		wg.Go(func() {
			if err := b.open(t).Stop(t.Context(), "engine-1"); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
		wg.Wait()
		stop(t, p, "engine-1")
		b.await(t, p, "no engine-1", gone("engine-1"))
		b.count(t, deployment, "engine-1", 0)
	}
}

func anotherDeployment(t *testing.T, b *bench) {
	ours, theirs := b.open(t), b.Open(t, "theirs")
	start(t, ours, "engine-1")
	start(t, theirs, "engine-1", "engine-2")
	b.running(t, ours, "engine-1")
	b.running(t, theirs, "engine-2")
	if all := list(t, ours); len(all) != 1 {
		t.Errorf("listed for one deployment: %+v", all)
	}
	stop(t, ours, "engine-2", "engine-1")
	b.count(t, deployment, "engine-1", 0)
	b.count(t, "theirs", "engine-1", 1)
	b.count(t, "theirs", "engine-2", 1)
	stop(t, theirs, "engine-1", "engine-2")
}

func order(t *testing.T, b *bench) {
	p := b.open(t)
	start(t, p, "engine-b", "engine-c", "engine-a")
	var ids []string
	for _, e := range list(t, p) {
		ids = append(ids, string(e.ID))
	}
	if got := strings.Join(ids, " "); got != "engine-a engine-b engine-c" {
		t.Errorf("listed %s", got)
	}
	stop(t, p, "engine-b", "engine-c", "engine-a")
}

func pending(t *testing.T, b *bench) {
	if b.Full == nil {
		t.Skip("this provider keeps no engine pending")
	}
	free := b.Full(t)
	p := b.open(t)
	start(t, p, "engine-1", "engine-1")
	all := b.await(t, p, "engine-1 pending, with a reason", func(all []provider.Instance) bool {
		e, _ := find(all, "engine-1")
		return e.State == enginestate.EngineOrdered && e.Reason != ""
	})
	if e, _ := find(all, "engine-1"); e.URL != "" && b.Running(t, deployment, "engine-1") > 0 {
		t.Errorf("pending, and runs: %+v", e)
	}
	free()
	b.running(t, p, "engine-1")
	b.count(t, deployment, "engine-1", 1)
	stop(t, p, "engine-1")
}

func stopPending(t *testing.T, b *bench) {
	if b.Full == nil {
		t.Skip("this provider keeps no engine pending")
	}
	free := b.Full(t)
	p := b.open(t)
	start(t, p, "engine-1")
	stop(t, p, "engine-1")
	b.await(t, p, "no engine-1", gone("engine-1"))
	free()
	list(t, p)
	b.count(t, deployment, "engine-1", 0)
}

func bounded(t *testing.T, b *bench) {
	if b.Hang == nil {
		t.Skip("this provider calls nothing that may hang")
	}
	p := b.open(t)
	resume := b.Hang(t)
	defer resume()
	for name, call := range map[string]func(context.Context) error{
		"start": func(ctx context.Context) error { return p.Start(ctx, "engine-1") },
		"stop":  func(ctx context.Context) error { return p.Stop(ctx, "engine-1") },
		"list":  func(ctx context.Context) error { _, err := p.List(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		returned := make(chan error, 1)
		go func() { returned <- call(ctx) }()
		select {
		case err := <-returned:
			if err == nil {
				t.Errorf("%s: no error while nothing answers", name)
			}
		case <-time.After(b.Within):
			t.Errorf("%s goes on without its context", name)
		}
		cancel()
	}
	resume()
	stop(t, p, "engine-1")
	b.count(t, deployment, "engine-1", 0)
}

func contextOver(t *testing.T, b *bench) {
	p := b.open(t)
	start(t, p, "engine-1")
	b.running(t, p, "engine-1")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(over, "engine-1"); err == nil {
		t.Error("stop: no error")
	}
	if err := p.Start(over, "engine-2"); err == nil {
		t.Error("start: no error")
	}
	if _, err := p.List(over); err == nil {
		t.Error("list: no error")
	}
	b.count(t, deployment, "engine-1", 1)
	if _, there := find(list(t, p), "engine-2"); there {
		t.Error("engine-2 was started")
	}
	stop(t, p, "engine-1")
}

// hostileIDs: the pool makes ids of its own, but a listing of another tool or a changed state may hold any.
func hostileIDs(t *testing.T, b *bench) {
	p := b.open(t)
	for _, id := range []rollout.EngineID{"", ".", "..", "../escape", "a/b", "-rf", "a b", "a;b", "$(id)", "a\nb",
		rollout.EngineID(strings.Repeat("x", 500))} {
		if err := p.Start(t.Context(), id); err == nil {
			if _, there := find(list(t, p), id); !there {
				t.Errorf("start of %q was taken, and it is not listed", id)
			}
		}
		_ = p.Stop(t.Context(), id)
	}
	if all := list(t, p); len(all) != 0 {
		t.Errorf("left: %+v", all)
	}
}
