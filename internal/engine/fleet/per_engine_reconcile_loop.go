package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// engineLoop keeps one engine: it looks, decides and acts, again and again. All that it remembers between two looks may
// be forgotten without harm.
type engineLoop struct {
	cfg    KeeperConfig
	member Member
	client Client
	paces  *paces

	health      engineHealth
	misses      int  // looks without an answer, in a row
	answered    bool // it has, since this loop watches it
	backoff     probeBackoff
	loads       adapterLoads
	last        *reading // of the engine's counters; nil after a look in vain
	counted     *reading // the latest of its token counters, whatever came after it
	moved       bool     // to another address: the old counters are another engine's
	usage       usageCheck
	canaryUsage rollout.Usage // which no worker reports
}

type reading struct {
	at     time.Time
	sample vllm.Sample
}

func newEngineLoop(cfg KeeperConfig, m Member, p *paces, limits *probeLimits) *engineLoop {
	return &engineLoop{
		cfg: cfg, member: m, paces: p, client: cfg.Client(m.Engine(Observation{})), loads: newAdapterLoads(&cfg),
		backoff: probeBackoff{limits: limits},
	}
}

// run keeps the engine until ctx is done: it looks every interval, less often while the engine is lost, and at once
// when it is woken. A round that Redis made fail is made up for by the next.
func (l *engineLoop) run(ctx context.Context, wake <-chan struct{}) {
	defer func() { l.loads.wait() }() // of the address that it had last
	defer func() { l.backoff.reset() }()
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
		_ = l.round(ctx) // Keep watches Redis, and gives up when it stays unavailable
		pause := l.backoff.pause(began, l.cfg.Interval)
		if l.startsUp(began) {
			pause = l.cfg.Interval
		}
		next.Reset(max(0, pause-time.Since(began)))
	}
}

// startsUpFor is how long a bought engine that has not answered yet is looked at as often as one that does: a caller
// waits for it, and pays.
const startsUpFor = time.Hour

func (l *engineLoop) startsUp(now time.Time) bool {
	return l.member.Source == SourceScaling && !l.answered && now.Sub(l.member.AddedAt) < startsUpFor
}

// round looks, and does what is decided until there is nothing more to decide on.
func (l *engineLoop) round(ctx context.Context) error {
	want, was, err := l.read(ctx)
	if err != nil {
		return err
	}
	seen, found := l.look(ctx, was)
	if ctx.Err() != nil {
		return ctx.Err() // what was seen during an interruption says nothing about the engine
	}
	l.collectLoads(ctx, want, &seen)
	seen.Overdue = was.State == enginestate.EngineLoading && time.Since(was.Since) >= l.cfg.LoadPatience
	f := facts{member: l.member, want: want, was: was, seen: seen}
	for more := true; more && err == nil; {
		more, err = l.perform(ctx, l.health.decide(time.Now(), f, &l.cfg), &f, found)
	}
	return err
}

// perform executes commands, and reports whether they brought facts to decide on.
func (l *engineLoop) perform(ctx context.Context, commands []command, f *facts, found found) (more bool, err error) {
	for _, c := range commands {
		switch c := c.(type) {
		case storePlan:
			f.was, err = l.store(ctx, f.was, found, c.Plan)
		case leaveFleet:
			err = l.cfg.Registry.forget(ctx, l.member.ID)
		case changeAdapters:
			more = l.changeAdapters(ctx, c, f)
		case sendCanary:
			more = true
			f.stage, f.canary = canaryEnded, l.sendCanary(ctx, c.model)
			err = ctx.Err()
		}
		if err != nil {
			return false, err
		}
	}
	return more, nil
}

// models lists what the engine serves, before the deadline of a look.
func (l *engineLoop) models(ctx context.Context) ([]vllm.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.ProbeTimeout)
	defer cancel()
	return l.client.Models(ctx)
}

// read reads an engine's desired and last observed state. A member that moved to another address gets a new client.
func (l *engineLoop) read(ctx context.Context) (Desired, Observation, error) {
	member, was, err := l.cfg.Registry.read(ctx, l.member.ID)
	if err != nil {
		return Desired{}, Observation{}, err
	}
	if member.URL != l.member.URL {
		l.loads.wait()
		l.backoff.reset()
		*l = *newEngineLoop(l.cfg, member, l.paces, l.backoff.limits)
		l.moved = true
	}
	l.member = member
	adapters, err := l.cfg.Registry.Wanted(ctx)
	if err != nil {
		return Desired{}, Observation{}, err
	}
	retired, err := l.cfg.Registry.Retired(ctx)
	return Desired{Drain: member.Drain, Adapters: adapters, Retired: retired}, was, err
}

// found is what a look finds that no decision depends on.
type found struct {
	version    string
	slots      int
	noAdapters string
	load       enginestate.EngineLoad
}

// look asks the engine for everything, under one total deadline.
func (l *engineLoop) look(ctx context.Context, was Observation) (Seen, found) {
	f := found{version: was.Version, slots: was.AdapterSlots, noAdapters: was.NoAdapters, load: was.Load}
	var seen Seen
	l.backoff.probe(ctx, func() {
		ctx, cancel := context.WithTimeout(ctx, l.cfg.ProbeTimeout)
		defer cancel()
		seen = l.lookNow(ctx, was, &f)
	})
	return seen, f
}

func (l *engineLoop) lookNow(ctx context.Context, was Observation, f *found) Seen {
	models, err := l.probe(ctx, was, f)
	if err != nil {
		l.misses++
		l.backoff.missed(time.Now(), l.misses >= l.cfg.LostAfter)
		if l.misses == l.cfg.LostAfter && ctx.Err() != context.Canceled {
			l.cfg.Complain(fmt.Errorf("engine %s does not answer: %s", l.member.ID, vllm.Detail(err)))
		}
		l.last = nil
		if l.misses >= l.cfg.LostAfter {
			f.load = enginestate.EngineLoad{}
			l.usage = usageCheck{} // the engine may come back as another one
		}
		return Seen{Fault: "not answering: " + err.Error(), Misses: l.misses}
	}
	l.misses, l.answered = 0, true
	l.backoff.reset()
	return Seen{Models: models, Idle: l.scrape(ctx, f)}
}

func (l *engineLoop) probe(ctx context.Context, was Observation, f *found) ([]vllm.Model, error) {
	if err := l.client.Health(ctx); err != nil {
		return nil, err
	}
	if was.State != enginestate.EngineReady || f.version == "" {
		version, err := l.client.Version(ctx)
		if err != nil {
			return nil, err
		}
		f.version, f.noAdapters = version, l.refusesAdapters(ctx)
	}
	return l.client.Models(ctx)
}

// refusesAdapters is why an engine that joins can load no adapter; empty: it can, or that is not known. It is told to
// let go an adapter that it cannot have, which one without LoRA does not understand.
func (l *engineLoop) refusesAdapters(ctx context.Context) string {
	var failure *rollout.Failure
	err := l.client.UnloadAdapter(ctx, "millrace/none")
	if errors.As(err, &failure) && failure.Code == rollout.CodeLoRADisabled {
		return "it takes no adapters: start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
	}
	return ""
}

// scrape reads the engine's metrics and reports whether it is known to be idle. An engine that has none is served all
// the same.
func (l *engineLoop) scrape(ctx context.Context, f *found) (idle bool) {
	sample, err := l.client.Metrics(ctx)
	if err != nil {
		l.last = nil
		f.load = enginestate.EngineLoad{At: f.load.At, InputTokens: f.load.InputTokens, OutputTokens: f.load.OutputTokens}
		return false
	}
	if sample.MaxLoRAs > 0 {
		f.slots = sample.MaxLoRAs
	}
	now := reading{at: time.Now(), sample: sample}
	before, known := l.countedBefore(now, f.load)
	if l.last != nil {
		before, known = *l.last, true
		if sample.GenerationTokens > before.sample.GenerationTokens {
			l.health.canary.progressed(now.at)
		}
	}
	f.load = loadBetween(before.sample, now.sample, before.at, now.at)
	l.checkUsage(ctx, now, &f.load)
	if known {
		l.cfg.Emit.Emit(l.event(now.at, strconv.FormatInt(now.at.UnixMilli(), 10), telemetry.EngineSample{Load: f.load}))
	}
	l.last, l.counted = &now, &now
	return sample.Running+sample.Waiting == 0
}

// countedBefore is the latest reading of the token counters before a look, if there is one: of this loop, before looks
// in vain, or of another process that kept the engine. Between the two nothing is known but the tokens.
func (l *engineLoop) countedBefore(now reading, load enginestate.EngineLoad) (before reading, known bool) {
	before = now
	switch {
	case l.counted != nil:
		before.at = l.counted.at
		before.sample.PromptTokens = l.counted.sample.PromptTokens
		before.sample.GenerationTokens = l.counted.sample.GenerationTokens
	case !l.moved && !load.At.IsZero() && load.InputTokens > 0:
		before.at = load.At
		before.sample.PromptTokens, before.sample.GenerationTokens = load.InputTokens, load.OutputTokens
	default:
		return now, false
	}
	return before, true
}

// checkUsage compares the engine's counters with what workers report. When Redis does not answer, nothing is known for
// a moment.
func (l *engineLoop) checkUsage(ctx context.Context, now reading, load *enginestate.EngineLoad) {
	reported, err := l.cfg.Registry.workers.Usage(ctx, l.member.ID)
	if err != nil {
		return
	}
	if l.last != nil {
		load.QueueSec = meanQueue(l.usage.latest.reported, reported)
	}
	l.usage.add(usageReading{at: now.at, counted: now.sample, reported: reported.Add(l.canaryUsage)})
	l.usage.writeTo(load)
}

// store saves the engine's state in the registry, with events for a new state and for the begin and end of lag.
func (l *engineLoop) store(ctx context.Context, was Observation, f found, p Plan) (Observation, error) {
	o := Observation{
		State: p.State, Reason: p.Reason, Since: was.Since, Models: p.Models, Adapters: p.Adapters, Troubles: p.Troubles,
		Proofs: p.Proofs, Version: f.version, AdapterSlots: f.slots, NoAdapters: f.noAdapters, Load: f.load,
	}
	o.Load.LifeAt = l.health.canary.provedAt.UTC().Round(0) // as it will be read
	if p.State == enginestate.EngineReady {
		o.Slow = l.paces.lag(l.member.ID)
		o.Reason = cmp.Or(f.noAdapters, p.Reason) // one cause, and not once for each adapter
	}
	if err := l.keepNoted(ctx, was, &o); err != nil {
		return was, err
	}
	changed := p.State != was.State
	if !changed && o.State == enginestate.EngineLost && reflect.DeepEqual(o, was) {
		return was, nil // thousands may be lost for days
	}
	var facts []telemetry.Event
	now := time.Now().UTC()
	if changed {
		o.Since = now
		facts = append(facts, l.event(now, fmt.Sprintf("%s/%d", o.State, now.UnixMilli()),
			telemetry.EngineChanged{State: o.State, Reason: o.Reason}))
	}
	if (was.Slow == "") != (o.Slow == "") && o.State == enginestate.EngineReady {
		facts = append(facts, l.event(now, fmt.Sprintf("pace/%d", now.UnixMilli()), telemetry.EnginePaced{Slow: o.Slow}))
	}
	if err := l.cfg.Registry.Observe(ctx, l.member.ID, o, facts...); err != nil {
		return was, err
	}
	return o, nil
}

// keepNoted adds the adapters that Registry.Loaded noted while this look was under way, which it may have been too
// early to see.
func (l *engineLoop) keepNoted(ctx context.Context, was Observation, o *Observation) error {
	if o.State == enginestate.EngineLost {
		return nil
	}
	_, now, err := l.cfg.Registry.read(ctx, l.member.ID)
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

func (l *engineLoop) event(at time.Time, key string, body telemetry.Body) telemetry.Event {
	return telemetry.Event{At: at, Engine: l.member.ID, Key: key, Body: body}
}
