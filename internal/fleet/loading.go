package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// adapterLoads are the loads that one engine's minder has under way, beside its looks: a load that hangs holds up
// neither them nor the loads of others. It is not safe for concurrent use; what runs beside the minder only sends its
// result.
type adapterLoads struct {
	cfg     *KeeperConfig
	under   map[string]*adapterLoad
	retries map[string]retry
	running *sync.WaitGroup
}

// adapterLoad is one load under way.
type adapterLoad struct {
	adapter Adapter
	since   time.Time
	ended   chan loadResult // buffered: who loads never waits for the minder
}

type loadResult struct {
	seconds float64
	err     error
}

// retry is a load that failed: why, and when it may be tried again.
type retry struct {
	reason string
	at     time.Time
	pause  time.Duration
}

func newAdapterLoads(cfg *KeeperConfig) adapterLoads {
	return adapterLoads{cfg: cfg, under: map[string]*adapterLoad{}, retries: map[string]retry{}, running: &sync.WaitGroup{}}
}

// wait waits for the loads to end, whose context is done.
func (l *adapterLoads) wait() { l.running.Wait() }

// prompt is how many of the loads under way are not overdue.
func (l *adapterLoads) prompt(now time.Time) int {
	n := 0
	for _, load := range l.under {
		if now.Sub(load.since) < l.cfg.LoadPatience {
			n++
		}
	}
	return n
}

// begin starts a load. Its error is the engine's or the adapter's.
func (l *adapterLoads) begin(a Adapter, load func() (float64, error)) *adapterLoad {
	under := &adapterLoad{adapter: a, since: time.Now(), ended: make(chan loadResult, 1)}
	l.under[a.Name] = under
	l.running.Go(func() {
		seconds, err := load()
		under.ended <- loadResult{seconds, err}
	})
	return under
}

// loadsAtOnce is how many adapters an engine is asked to load at a time; those that are overdue do not count.
const loadsAtOnce = 4

// act does what a plan asks, and waits a moment for the loads that it begins: most end within it.
func (m *minder) act(ctx context.Context, p Plan) {
	var begun []*adapterLoad
	for _, a := range p.Load {
		if m.loads.prompt(time.Now()) >= loadsAtOnce {
			break
		}
		loader, client, id := m.cfg.Loader, m.client, m.member.ID // as they are now
		begun = append(begun, m.loads.begin(a, func() (float64, error) { return loader.Load(ctx, client, id, a) }))
	}
	for _, name := range p.Unload {
		unloadCtx, cancel := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
		_ = m.client.UnloadAdapter(unloadCtx, name) // what is still listed is unloaded in the next round
		cancel()
	}
	moment := time.NewTimer(m.cfg.Interval)
	defer moment.Stop()
	for _, load := range begun {
		select {
		case result := <-load.ended:
			load.ended <- result // for recall
		case <-moment.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// recall takes in what became of loads, and tells what is known of adapters beside what the engine lists.
func (m *minder) recall(ctx context.Context, want Desired, seen *Seen) {
	if seen.Fault != "" {
		return
	}
	now := time.Now()
	for name, load := range m.loads.under {
		select {
		case result := <-load.ended:
			delete(m.loads.under, name)
			m.ended(ctx, load, result)
		default:
		}
	}
	seen.Failed, seen.Loading = map[string]string{}, map[string]bool{}
	for name, r := range m.loads.retries {
		switch {
		case now.Before(r.at):
			seen.Failed[name] = r.reason
		case now.Sub(r.at) > m.cfg.RetryMax:
			delete(m.loads.retries, name) // no longer wanted
		}
	}
	for name, load := range m.loads.under {
		seen.Loading[name] = true
		if now.Sub(load.since) >= m.cfg.LoadPatience {
			silent := now.Sub(load.since).Round(time.Second)
			seen.Failed[name] = fmt.Sprintf("the engine has not answered for %v since it was asked to load it", silent)
		}
	}
	seen.Changed = m.cfg.changes.all()
	m.recallHeld(ctx, want, seen)
}

// recallHeld reads what the engine was asked to load, and strikes out what it has unloaded.
func (m *minder) recallHeld(ctx context.Context, want Desired, seen *Seen) {
	held, err := m.cfg.Registry.Held(ctx, m.member.ID)
	if err != nil {
		return // not known: the engine is believed, as it was when it was looked at before
	}
	seen.Held = held
	roots := adapterRoots(seen.Models)
	var gone []string
	for _, name := range want.Retired {
		_, listed := roots[name]
		if _, asked := held[name]; asked && !listed && m.loads.under[name] == nil {
			gone = append(gone, name)
		}
	}
	_ = m.cfg.Registry.Release(ctx, m.member.ID, gone...) // the next round does it again
}

// ended takes in a load's end, and reports it.
func (m *minder) ended(ctx context.Context, load *adapterLoad, result loadResult) {
	if ctx.Err() != nil {
		return
	}
	a := load.adapter
	body := telemetry.AdapterLoaded{Adapter: a.Name, Version: a.Version, Sec: result.seconds}
	if result.err != nil {
		body.Failure = result.err.Error()
		m.loads.putOff(a.Name, result.err)
	} else {
		delete(m.loads.retries, a.Name)
	}
	m.cfg.Emit.Emit(telemetry.Event{
		At: load.since, Run: a.Run, Engine: m.member.ID, Key: fmt.Sprintf("%s/%d", a.Name, load.since.UnixMilli()), Body: body,
	})
}

// putOff doubles the pause before a failed load is tried again: a permanent failure passes only when
// somebody changes something, and trying costs the engine little.
func (l *adapterLoads) putOff(name string, err error) {
	pause := max(2*l.retries[name].pause, l.cfg.Interval)
	if rollout.KindOf(err) == rollout.Permanent {
		pause = l.cfg.RetryMax
	}
	pause = min(pause, l.cfg.RetryMax)
	l.retries[name] = retry{reason: err.Error(), at: time.Now().Add(pause), pause: pause}
}
