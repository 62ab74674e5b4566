package fleet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/vllm"
)

// minder tends one engine. All that it remembers between two looks may be forgotten without harm.
type minder struct {
	cfg    KeeperConfig
	member Member
	client Client
	paces  *paces

	canary  canary
	flaps   flaps
	misses  int // looks without an answer, in a row
	absence absence
	loads   adapterLoads
	last    *reading // of the engine's counters
	ledger  ledger
	sung    rollout.Usage // by canaries, which no worker tells of
}

type reading struct {
	at     time.Time
	sample vllm.Sample
}

func newMinder(cfg KeeperConfig, m Member, p *paces, a *absences) *minder {
	return &minder{
		cfg: cfg, member: m, paces: p, client: cfg.Client(m.Engine(Observation{})), loads: newAdapterLoads(&cfg),
		absence: absence{all: a},
	}
}

// run looks after the engine until ctx is done: every interval, less often while it is lost, and at once when it is
// woken. A round that Redis made fail is made up for by the next.
func (m *minder) run(ctx context.Context, wake <-chan struct{}) {
	defer func() { m.loads.wait() }() // of the address that it had last
	defer func() { m.absence.over() }()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-next.C:
		}
		began := time.Now()
		_ = m.round(ctx) // Keep watches Redis, and gives up when it stays away
		next.Reset(max(0, m.absence.pause(began, m.cfg.Interval)-time.Since(began)))
	}
}

// round looks, decides and acts. What an act brings is looked at and decided on at once, so that an engine which
// needed one load and a canary is ready within the round.
func (m *minder) round(ctx context.Context) error {
	want, was, err := m.read(ctx)
	if err != nil {
		return err
	}
	seen, found := m.look(ctx, was)
	if ctx.Err() != nil {
		return ctx.Err() // what was seen during an interruption says nothing about the engine
	}
	m.recall(ctx, want, &seen)
	seen.Overdue = was.State == rollout.EngineLoading && time.Since(was.Since) >= m.cfg.LoadPatience
	plan := Decide(want, was, seen, m.cfg.LostAfter)
	m.flaps.saw(time.Now(), was.State, plan.State, &m.cfg)
	if why := m.flaps.fault(was.State, plan.State, &m.cfg); why != "" && seen.Fault == "" {
		seen.Broken = m.canary.rest(time.Now(), why, &m.cfg)
		plan = Decide(want, was, seen, m.cfg.LostAfter)
	}
	now, err := m.observe(ctx, was, found, plan)
	if err != nil || m.gone(now, seen, plan) {
		return errors.Join(err, m.leave(ctx, err))
	}
	if len(plan.Load)+len(plan.Unload) > 0 {
		m.act(ctx, plan)
		if seen.Models, err = m.models(ctx); err != nil {
			return nil // the next look finds out what is wrong
		}
		m.recall(ctx, want, &seen)
		plan = Decide(want, now, seen, m.cfg.LostAfter)
		if now, err = m.observe(ctx, now, found, plan); err != nil {
			return err
		}
	}
	if !plan.Canary && !m.canary.due(time.Now(), plan.State, m.cfg.CanaryEvery) || seen.Fault != "" {
		return nil
	}
	seen.Proven, seen.Broken = m.sing(ctx, want, plan.State, seen.Models)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err = m.observe(ctx, now, found, Decide(want, now, seen, m.cfg.LostAfter))
	return err
}

func (m *minder) models(ctx context.Context) ([]vllm.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
	defer cancel()
	return m.client.Models(ctx)
}

// goodbye is how long an engine that leaves at once stays in view, so that every dispatcher sees it and takes back what
// the engine has.
const goodbye = 3 * time.Second

// gone reports whether an engine that is to leave the fleet may: it has finished and unloaded, or nobody waits for
// that.
func (m *minder) gone(now Observation, seen Seen, p Plan) bool {
	switch {
	case !m.member.Leave:
		return false
	case now.State == rollout.EngineLost:
		return true
	case m.member.Now:
		return time.Since(now.Since) >= goodbye
	}
	return now.State == rollout.EngineDraining && seen.Idle && len(p.Unload) == 0
}

func (m *minder) leave(ctx context.Context, failed error) error {
	if failed != nil {
		return nil
	}
	return m.cfg.Registry.forget(ctx, m.member.ID)
}

// read is what the engine should be and what it was. A member that moved to another address is served
// by its new client.
func (m *minder) read(ctx context.Context) (Desired, Observation, error) {
	member, was, err := m.cfg.Registry.read(ctx, m.member.ID)
	if err != nil {
		return Desired{}, Observation{}, err
	}
	if member.URL != m.member.URL {
		m.loads.wait()
		m.absence.over()
		*m = *newMinder(m.cfg, member, m.paces, m.absence.all)
	}
	m.member = member
	adapters, err := m.cfg.Registry.Wanted(ctx)
	if err != nil {
		return Desired{}, Observation{}, err
	}
	retired, err := m.cfg.Registry.Retired(ctx)
	return Desired{Drain: member.Drain, Adapters: adapters, Retired: retired}, was, err
}

// found is what a look brings beside what is decided on.
type found struct {
	version string
	slots   int
	load    rollout.EngineLoad
}

// look asks the engine for everything, under one total deadline.
func (m *minder) look(ctx context.Context, was Observation) (Seen, found) {
	f := found{version: was.Version, slots: was.AdapterSlots, load: was.Load}
	var seen Seen
	m.absence.look(ctx, func() {
		ctx, cancel := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
		defer cancel()
		seen = m.lookNow(ctx, was, &f)
	})
	return seen, f
}

func (m *minder) lookNow(ctx context.Context, was Observation, f *found) Seen {
	models, err := m.probe(ctx, was, f)
	if err != nil {
		m.misses++
		m.absence.missed(time.Now(), m.misses >= m.cfg.LostAfter)
		if m.misses == m.cfg.LostAfter && ctx.Err() != context.Canceled {
			m.cfg.Complain(fmt.Errorf("engine %s does not answer: %s", m.member.ID, vllm.Detail(err)))
		}
		m.last = nil
		if m.misses >= m.cfg.LostAfter {
			f.load = rollout.EngineLoad{}
			m.ledger = ledger{} // what comes back may be another engine
		}
		return Seen{Fault: "not answering: " + err.Error(), Misses: m.misses}
	}
	m.misses = 0
	m.absence.over()
	return Seen{Models: models, Idle: m.scrape(ctx, f)}
}

func (m *minder) probe(ctx context.Context, was Observation, f *found) ([]vllm.Model, error) {
	if err := m.client.Health(ctx); err != nil {
		return nil, err
	}
	if was.State != rollout.EngineReady || f.version == "" {
		version, err := m.client.Version(ctx)
		if err != nil {
			return nil, err
		}
		f.version = version
	}
	return m.client.Models(ctx)
}

// scrape reads the engine's metrics and reports whether it is known to be idle. An engine that has
// none is served all the same.
func (m *minder) scrape(ctx context.Context, f *found) (idle bool) {
	sample, err := m.client.Metrics(ctx)
	if err != nil {
		m.last = nil
		f.load = rollout.EngineLoad{At: f.load.At}
		return false
	}
	if sample.MaxLoRAs > 0 {
		f.slots = sample.MaxLoRAs
	}
	now := reading{at: time.Now(), sample: sample}
	before := now
	if m.last != nil {
		before = *m.last
		if sample.GenerationTokens > before.sample.GenerationTokens {
			m.canary.progressed(now.at)
		}
	}
	f.load = loadBetween(before.sample, now.sample, before.at, now.at)
	m.reconcile(ctx, now, &f.load)
	if m.last != nil {
		m.emit(now.at, strconv.FormatInt(now.at.UnixMilli(), 10), telemetry.EngineSample{Load: f.load})
	}
	m.last = &now
	return sample.Running+sample.Waiting == 0
}

// reconcile compares the engine's counters with what workers tell. When Redis does not answer, nothing is known for
// a moment.
func (m *minder) reconcile(ctx context.Context, now reading, load *rollout.EngineLoad) {
	told, err := m.cfg.Registry.Usage(ctx, m.member.ID)
	if err != nil {
		return
	}
	if m.last != nil {
		load.QueueSec = meanQueue(m.ledger.latest.told, told)
	}
	m.ledger.add(entry{at: now.at, counted: now.sample, told: told.Add(m.sung)})
	m.ledger.settle(load)
}

// observe stores what the engine is now, and reports a new state.
func (m *minder) observe(ctx context.Context, was Observation, f found, p Plan) (Observation, error) {
	o := Observation{
		State: p.State, Reason: p.Reason, Since: was.Since,
		Models: p.Models, Adapters: p.Adapters, Troubles: p.Troubles, Version: f.version, AdapterSlots: f.slots, Load: f.load,
	}
	o.Load.LifeAt = m.canary.provedAt.UTC().Round(0) // as it will be read
	if p.State == rollout.EngineReady {
		o.Slow = m.paces.lag(m.member.ID)
	}
	if err := m.keepNoted(ctx, was, &o); err != nil {
		return was, err
	}
	changed := p.State != was.State
	if !changed && o.State == rollout.EngineLost && reflect.DeepEqual(o, was) {
		return was, nil // thousands may be lost for days
	}
	if changed {
		o.Since = time.Now().UTC()
	}
	if err := m.cfg.Registry.Observe(ctx, m.member.ID, o); err != nil {
		return was, err
	}
	if changed {
		key := fmt.Sprintf("%s/%d", o.State, o.Since.UnixMilli())
		m.emit(o.Since, key, telemetry.EngineChanged{State: o.State, Reason: o.Reason})
	}
	m.reportPace(was, o)
	return o, nil
}

// reportPace tells when an engine begins or ceases to lag; it is ready all the while.
func (m *minder) reportPace(was, is Observation) {
	if (was.Slow == "") == (is.Slow == "") || is.State != rollout.EngineReady {
		return
	}
	now := time.Now().UTC()
	m.emit(now, fmt.Sprintf("pace/%d", now.UnixMilli()), telemetry.EnginePaced{Slow: is.Slow})
}

// keepNoted adds the adapters that Registry.Loaded noted while this look was under way, which it may have been too
// early to see.
func (m *minder) keepNoted(ctx context.Context, was Observation, o *Observation) error {
	if o.State == rollout.EngineLost {
		return nil
	}
	_, now, err := m.cfg.Registry.read(ctx, m.member.ID)
	if err != nil {
		return err
	}
	for _, name := range now.Adapters {
		if !slices.Contains(was.Adapters, name) && !slices.Contains(o.Adapters, name) {
			o.Adapters = append(o.Adapters, name)
		}
	}
	slices.Sort(o.Adapters)
	return nil
}

func (m *minder) emit(at time.Time, key string, body telemetry.Body) {
	m.cfg.Emit.Emit(telemetry.Event{At: at, Engine: m.member.ID, Key: key, Body: body})
}
