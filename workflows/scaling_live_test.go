package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/provider/memory"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/workflows"
)

// scaledFleet is a fleet whose engines are ready as soon as they are members, and idle as soon as they drain.
type scaledFleet struct {
	cloud *memory.Cloud
	name  string

	mu      sync.Mutex
	members map[rollout.EngineID]*supply.Member
	view    supply.View
	scaled  bool
}

func (f *scaledFleet) Bought(context.Context) ([]supply.Member, []enginestate.Engine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var members []supply.Member
	var all []enginestate.Engine
	for _, m := range f.members {
		switch {
		case f.cloud.Running(f.name, m.ID) == 0:
			m.State = enginestate.EngineLost
		case m.Drain:
			m.State = enginestate.EngineDraining
		default:
			m.State = enginestate.EngineReady
		}
		m.Idle, m.IdleAt = m.Drain, time.Now()
		members = append(members, *m)
		all = append(all, enginestate.Engine{ID: m.ID, State: m.State, Source: fleet.SourceScaling})
	}
	return members, all, nil
}

func (*scaledFleet) Removed(context.Context) ([]rollout.EngineID, error) { return nil, nil }

func (f *scaledFleet) AddListed(_ context.Context, e enginestate.Engine, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[e.ID] = &supply.Member{ID: e.ID, URL: e.URL, Since: time.Now()}
	return nil
}

func (f *scaledFleet) Drain(_ context.Context, id rollout.EngineID, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[id]; m != nil {
		m.Drain = true
	}
	return nil
}

func (f *scaledFleet) Dismiss(_ context.Context, id rollout.EngineID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.members, id)
	return nil
}

func (f *scaledFleet) SaveScaling(_ context.Context, v supply.View) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view, f.scaled = v, true
	return nil
}

func (f *scaledFleet) Scaling(context.Context) (supply.View, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.scaled, nil
}

// serving is the engines that serve, by id.
func (f *scaledFleet) serving() []rollout.EngineID {
	members, _, _ := f.Bought(context.Background())
	var ids []rollout.EngineID
	for _, m := range members {
		if m.State == enginestate.EngineReady {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// oneRun is a sampler that sees one run, which plays.
type oneRunSampled struct{}

func (oneRunSampled) Sample(context.Context, json.RawMessage) (scaling.Sample, json.RawMessage, error) {
	return scaling.Sample{At: time.Now().UTC(), Sec: 1, Runs: []scaling.Run{{Name: "scaled"}}}, json.RawMessage(`{"n":1}`),
		nil
}

// scaled is a fleet that is scaled: engines are bought, one dies and is replaced, the provider refuses for a while, an
// operator sets how many there are to be and takes it back, the worker that touches the provider is another one in the
// middle of a purchase, and the configuration's section goes and comes back.
func scaled(w *liveWorld) {
	cloud := memory.NewCloud()
	f := &scaledFleet{cloud: cloud, name: "scaled", members: map[rollout.EngineID]*supply.Member{}}
	acts := &activities.Scaling{Provider: cloud.Provider("scaled"), Sampler: oneRunSampled{}, Fleet: f, Now: time.Now,
		Log: slog.New(slog.DiscardHandler)}
	deployment := w.control.Deployment
	cfg := activities.ScalingConfig{Provider: "memory", Queue: deployment.ScalingQueue("memory", ""),
		Window: rollout.Duration(time.Second), Config: scaling.Config{Policy: scaling.Fixed, Engines: 2, Max: 4}}
	begin := func() worker.Worker {
		one := worker.New(w.temporal, cfg.Queue, worker.Options{DisableWorkflowWorker: true})
		one.RegisterActivity(acts)
		w.must("start the worker", one.Start())
		return one
	}
	serve := func(what string, engines int) {
		err := retry.Until(w.ctx, 50*time.Millisecond, func(ctx context.Context) error {
			listed, err := acts.Provider.List(ctx)
			if n := len(f.serving()); err != nil || n != engines || len(listed) != engines {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil {
			w.t.Fatalf("%s: %v serve; want %d; %+v", what, f.serving(), engines, f.view)
		}
	}
	first := begin()
	w.must("ensure", w.control.EnsureScaling(w.ctx, cfg))
	w.must("ensure again", w.control.EnsureScaling(w.ctx, cfg))
	w.must("configure", w.control.ConfigureScaling(w.ctx, cfg))
	serve("bought", 2)

	cloud.Fail("scaled", f.serving()[0], "it burns")
	serve("replaced", 2)

	_, err := w.control.SetScaling(w.ctx, scaling.SettingsChange{Set: scaling.Overrides{"engines": 9}})
	if !rollout.Refused(err, rollout.Invalid) {
		w.t.Errorf("more engines than there may be: %v", err)
	}
	elsewhere := cfg
	elsewhere.Provider = "other"
	if err := w.control.ConfigureScaling(w.ctx, elsewhere); !rollout.Refused(err, rollout.Conflict) {
		w.t.Errorf("another provider while there are engines: %v", err)
	}
	cloud.Refuse(errors.New("the quota is used up"))
	now, err := w.control.SetScaling(w.ctx, scaling.SettingsChange{Set: scaling.Overrides{"engines": 3}})
	w.must("set", err)
	if now.Settings.Engines != 3 || !slices.Equal(now.Set, []string{"engines"}) {
		w.t.Errorf("set: %+v", now)
	}
	w.eventually("trouble", func() bool { return f.told().Trouble != "" })
	first.Stop() // in the middle of a purchase
	cloud.Refuse(nil)
	second := begin()
	defer func() { second.Stop() }()
	serve("bought by another worker", 3)
	w.eventually("no trouble", func() bool { return f.told().Trouble == "" })

	_, err = w.control.SetScaling(w.ctx, scaling.SettingsChange{Reset: true})
	w.must("reset", err)
	serve("given back", 2)

	w.must("end", w.control.EndScaling(w.ctx))
	w.eventually("refused", func() bool {
		_, err := w.control.SetScaling(w.ctx, scaling.SettingsChange{Reset: true})
		return rollout.Refused(err, rollout.NotScaled)
	})
	cfg.Config.Engines = 1
	w.must("configure again", w.control.ConfigureScaling(w.ctx, cfg))
	serve("scaled again", 1)
	for i, h := range executionsOf(w.t, w.temporal, deployment.ScalingID()) {
		if err := replayer().ReplayWorkflowHistory(quiet, workflows.CompletedPrefix(h)); err != nil {
			w.t.Errorf("execution %d does not replay: %v", i, err)
		}
	}
	for _, call := range cloud.Calls() {
		if call.Method == "start" && cloud.Running("scaled", call.ID) > 1 {
			w.t.Errorf("%s runs %d times", call.ID, cloud.Running("scaled", call.ID))
		}
	}
	w.must("terminate", w.temporal.TerminateWorkflow(w.ctx, deployment.ScalingID(), "", "the story is over"))
}

func (f *scaledFleet) told() supply.View {
	v, _, _ := f.Scaling(context.Background())
	return v
}

// eventually waits until something holds.
func (w *liveWorld) eventually(what string, holds func() bool) {
	w.t.Helper()
	for !holds() {
		if retry.Pause(w.ctx, 50*time.Millisecond) != nil {
			w.t.Fatalf("%s: it does not come to that", what)
		}
	}
}
