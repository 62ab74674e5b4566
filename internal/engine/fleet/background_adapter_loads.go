package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// adapterLoads are the loads that one engine's loop has running, beside its looks: a load that hangs holds up neither
// them nor the loads of others. It is not safe for concurrent use; what runs beside the loop only sends its result.
type adapterLoads struct {
	cfg     *KeeperConfig
	started map[string]*adapterLoad
	retries map[string]retry
	running *sync.WaitGroup
}

// adapterLoad is one load that runs.
type adapterLoad struct {
	adapter Adapter
	since   time.Time
	ended   chan loadResult // buffered: who loads never waits for the loop
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
	return adapterLoads{
		cfg: cfg, started: map[string]*adapterLoad{}, retries: map[string]retry{}, running: &sync.WaitGroup{},
	}
}

// wait waits for the loads to end, whose context is done.
func (l *adapterLoads) wait() { l.running.Wait() }

// onTime is how many of the loads that run are not overdue.
func (l *adapterLoads) onTime(now time.Time) int {
	n := 0
	for _, load := range l.started {
		if now.Sub(load.since) < l.cfg.LoadPatience {
			n++
		}
	}
	return n
}

// begin starts a load. Its error is the engine's or the adapter's.
func (l *adapterLoads) begin(a Adapter, load func() (float64, error)) *adapterLoad {
	started := &adapterLoad{adapter: a, since: time.Now(), ended: make(chan loadResult, 1)}
	l.started[a.Name] = started
	l.running.Go(func() {
		seconds, err := load()
		started.ended <- loadResult{seconds, err}
	})
	return started
}

// loadsAtOnce is how many adapters an engine is asked to load at a time; those that are overdue do not count.
const loadsAtOnce = 4

// changeAdapters asks the engine to load and unload, waits a moment for the loads, most of which end within it, and
// lists the models again. It reports whether the engine answered; if not, the next look finds out why.
func (l *engineLoop) changeAdapters(ctx context.Context, change changeAdapters, f *facts) bool {
	var begun []*adapterLoad
	for _, a := range change.load {
		if l.loads.onTime(time.Now()) >= loadsAtOnce {
			break
		}
		loader, client, id := l.cfg.Loader, l.client, l.member.ID // as they are now
		begun = append(begun, l.loads.begin(a, func() (float64, error) { return loader.Load(ctx, client, id, a) }))
	}
	for _, name := range change.unload {
		unloadCtx, cancel := context.WithTimeout(ctx, l.cfg.ProbeTimeout)
		_ = l.client.UnloadAdapter(unloadCtx, name) // what is still listed is unloaded in the next round
		cancel()
	}
	l.awaitLoads(ctx, begun)
	models, err := l.models(ctx)
	if err != nil {
		return false
	}
	f.stage, f.seen.Models = adaptersChanged, models
	l.collectLoads(ctx, f.want, &f.seen)
	return true
}

// awaitLoads waits for loads to end, for no longer than an interval.
func (l *engineLoop) awaitLoads(ctx context.Context, begun []*adapterLoad) {
	moment := time.NewTimer(l.cfg.Interval)
	defer moment.Stop()
	for _, load := range begun {
		select {
		case result := <-load.ended:
			load.ended <- result // for collectLoads
		case <-moment.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// collectLoads takes in what became of loads, and adds to seen what is known of adapters beside what the engine lists.
func (l *engineLoop) collectLoads(ctx context.Context, want Desired, seen *Seen) {
	if seen.Fault != "" {
		return
	}
	now := time.Now()
	for name, load := range l.loads.started {
		select {
		case result := <-load.ended:
			delete(l.loads.started, name)
			l.loadEnded(ctx, load, result)
		default:
		}
	}
	seen.Failed, seen.Loading = map[string]string{}, map[string]bool{}
	for name, r := range l.loads.retries {
		switch {
		case now.Before(r.at):
			seen.Failed[name] = r.reason
		case now.Sub(r.at) > l.cfg.RetryMax:
			delete(l.loads.retries, name) // no longer wanted
		}
	}
	for name, load := range l.loads.started {
		seen.Loading[name] = true
		if now.Sub(load.since) >= l.cfg.LoadPatience {
			silent := now.Sub(load.since).Round(time.Second)
			seen.Failed[name] = fmt.Sprintf("the engine has not answered for %v since it was asked to load it", silent)
		}
	}
	seen.Changed = l.cfg.changed.all()
	l.readLoadRecords(ctx, want, seen)
}

// readLoadRecords reads what the engine was asked to load, and forgets what it has unloaded. What it lists of the
// wanted adapters without having been asked for it is noted, while that is known.
func (l *engineLoop) readLoadRecords(ctx context.Context, want Desired, seen *Seen) {
	roots := adapterRoots(seen.Models)
	records, err := l.cfg.Registry.ComparedLoads(ctx, l.member.ID, roots)
	if err != nil {
		return // not known: the engine is believed, as it was when it was looked at before
	}
	seen.Records = records
	for _, a := range want.Adapters {
		root, listed := roots[a.Name]
		if _, known := records[a.Name]; listed && !known {
			_ = l.cfg.Registry.RecordForeign(ctx, l.member.ID, a.Name, root) // the next round does it again
		}
	}
	var gone []string
	for name, record := range records {
		_, listed := roots[name]
		unloaded := record.Foreign || record.Reload || slices.Contains(want.Retired, name)
		if unloaded && !listed && l.loads.started[name] == nil {
			gone = append(gone, name)
		}
	}
	_ = l.cfg.Registry.ForgetLoads(ctx, l.member.ID, gone...) // the next round does it again
}

// loadEnded takes in a load's end, and reports it.
func (l *engineLoop) loadEnded(ctx context.Context, load *adapterLoad, result loadResult) {
	if ctx.Err() != nil {
		return
	}
	a := load.adapter
	body := telemetry.AdapterLoaded{Adapter: a.Name, Version: a.Version, Sec: result.seconds}
	if result.err != nil {
		body.Failure = result.err.Error()
		l.loads.backoff(a.Name, result.err)
	} else {
		delete(l.loads.retries, a.Name)
	}
	key := fmt.Sprintf("%s/%d", a.Name, load.since.UnixMilli())
	err := l.cfg.Tell.Tell(ctx, telemetry.Event{At: load.since, Run: a.Run, Engine: l.member.ID, Key: key, Body: body})
	if err != nil && ctx.Err() == nil {
		l.cfg.Complain(fmt.Errorf("keep what became of the load of %s on engine %s: %w", a.Name, l.member.ID, err))
	}
}

// backoff doubles the pause before a failed load is retried: a permanent failure needs somebody to change something,
// and a try costs the engine little.
func (l *adapterLoads) backoff(name string, err error) {
	pause := max(2*l.retries[name].pause, l.cfg.Interval)
	if rollout.KindOf(err) == rollout.Permanent {
		pause = l.cfg.RetryMax
	}
	pause = min(pause, l.cfg.RetryMax)
	l.retries[name] = retry{reason: err.Error(), at: time.Now().Add(pause), pause: pause}
}
