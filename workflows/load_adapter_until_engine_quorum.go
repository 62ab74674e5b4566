package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Bounds of one round of loads.
const (
	loadsAtOnce = 64               // engines
	firstLoad   = 60 * time.Second // when none has loaded an adapter after that, engines are chosen again
)

// publishPatience is how long a publication waits for engines before its caller is told to send it again.
const publishPatience = 90 * time.Second

// errNoEngine is an outage.
var errNoEngine = errors.New("no engine is ready; see: millrace engine list")

// loads is one round of loads of one adapter: the engines that were asked, and their results.
type loads struct {
	asked   []rollout.EngineID // in the order in which they were
	waited  map[rollout.EngineID]bool
	enough  int // engines; 0: all that are waited for, or as many as loaded it in time
	seconds map[rollout.EngineID]float64
	failed  map[rollout.EngineID]error
	late    bool // no more is waited for
}

// introduce loads an adapter until enough engines serve it, and tries again for as long as patience lasts when that is
// not to be had through an outage, unless the run ends meanwhile. The answer is the last round.
func (r *run) introduce(ctx workflow.Context, adapter fleet.Adapter, patience time.Duration) (*loads, error) {
	deadline := workflow.Now(ctx).Add(patience)
	l := &loads{}
	for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
		var choice activities.EngineChoice
		short := workflow.WithActivityOptions(ctx, shortActivity())
		err := workflow.ExecuteActivity(short, acts.ChooseEngines, r.choice()).Get(ctx, &choice)
		if err == nil && len(choice.Ready)+len(choice.Behind) == 0 {
			err = errNoEngine
		}
		if err == nil {
			l = loadOn(ctx, choice, adapter, r.machine.Spec.Adapters)
			err = l.outcome()
		}
		if err == nil || fate(err) != rollout.Unavailable || !workflow.Now(ctx).Add(pause).Before(deadline) {
			return l, err
		}
		over, slept := workflow.AwaitWithTimeout(ctx, pause, func() bool { return r.machine.State.Over() })
		if over || slept != nil {
			return l, err
		}
	}
}

// loadOn asks engines to load an adapter, all at once, and returns when a quorum of them serve it. Without a quorum
// that is all that can load it within the spec's patience after the first; engines that lack other adapters of the run
// are not waited for. What the others do not finish is the keeper's: requests only go to engines that have the adapter.
func loadOn(
	ctx workflow.Context, choice activities.EngineChoice, adapter fleet.Adapter, spec runspec.AdapterSpec,
) *loads {
	ctx, stop := workflow.WithCancel(workflow.WithActivityOptions(ctx, loadActivity()))
	defer stop()
	l := &loads{
		asked: slices.Concat(choice.Ready, choice.Behind), waited: map[rollout.EngineID]bool{},
		seconds: map[rollout.EngineID]float64{}, failed: map[rollout.EngineID]error{},
	}
	if spec.Quorum > 0 {
		l.enough = min(spec.Quorum, len(l.asked))
	}
	for _, engine := range l.asked {
		l.waited[engine] = len(choice.Ready) == 0 || slices.Contains(choice.Ready, engine)
	}
	selector := workflow.NewSelector(ctx)
	selector.AddFuture(workflow.NewTimer(ctx, firstLoad), func(workflow.Future) { l.late = l.late || len(l.seconds) == 0 })
	for next := 0; !l.over(); {
		for ; next < len(l.asked) && next-l.ended() < loadsAtOnce; next++ {
			engine := l.asked[next]
			load := workflow.ExecuteActivity(ctx, acts.LoadAdapter, activities.LoadInput{Engine: engine, Adapter: adapter})
			selector.AddFuture(load, func(f workflow.Future) {
				var result activities.LoadResult
				if err := f.Get(ctx, &result); err != nil {
					l.failed[engine] = err
					return
				}
				if l.seconds[engine] = result.Sec; len(l.seconds) == 1 && l.enough == 0 {
					selector.AddFuture(workflow.NewTimer(ctx, spec.Patience()), func(workflow.Future) { l.late = true })
				}
			})
		}
		selector.Select(ctx)
	}
	return l
}

func (l *loads) ended() int { return len(l.seconds) + len(l.failed) }

// over reports whether nothing more is to be waited for.
func (l *loads) over() bool {
	switch {
	case l.late, l.ended() == len(l.asked):
		return true
	case l.enough > 0:
		return len(l.seconds) >= l.enough
	case len(l.seconds) == 0:
		return false
	}
	return !slices.ContainsFunc(l.asked, func(e rollout.EngineID) bool { return l.waited[e] && l.pending(e) })
}

func (l *loads) pending(e rollout.EngineID) bool {
	_, loaded := l.seconds[e]
	return !loaded && l.failed[e] == nil
}

// condemned reports whether all engines refuse the adapter for good. One that serves somewhere is not at fault.
func (l *loads) condemned() bool {
	return !slices.ContainsFunc(l.asked, func(e rollout.EngineID) bool {
		return l.failed[e] == nil || !activities.Final(l.failed[e])
	})
}

// outcome is nil when enough engines serve the adapter. It is an outage unless all refuse it for good.
func (l *loads) outcome() error {
	if len(l.seconds) >= max(l.enough, 1) {
		return nil
	}
	var causes []string
	engines := map[string][]string{} // by cause
	var code rollout.Code
	for _, engine := range l.asked {
		why := "has not loaded it yet"
		if err := l.failed[engine]; err != nil {
			why = strings.TrimPrefix(cause(err), fmt.Sprintf("engine %s: ", engine))
			if code == "" || code == rollout.CodeAdapterConflict { // a conflict only if there is nothing else
				code = activities.Code(err)
			}
		} else if !l.pending(engine) {
			continue
		}
		if engines[why] == nil {
			causes = append(causes, why)
		}
		engines[why] = append(engines[why], string(engine))
	}
	const shown = 3
	var texts []string
	for _, why := range causes[:min(shown, len(causes))] {
		texts = append(texts, fmt.Sprintf("engine %s: %s", units.Few(engines[why], shown), why))
	}
	if more := len(causes) - shown; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more causes", more))
	}
	text := strings.Join(texts, "; ")
	if l.condemned() {
		return temporal.NewNonRetryableApplicationError(text, string(code), nil)
	}
	return temporal.NewApplicationError(text, string(code))
}

// notes says which engines do not have the adapter, and why.
func (l *loads) notes() []string {
	if len(l.seconds) == 0 {
		return nil
	}
	var notes []string
	for _, engine := range l.asked {
		switch err := l.failed[engine]; {
		case err != nil:
			notes = append(notes, fmt.Sprintf("engine %s gets no requests for it until it can load it: %s", engine, cause(err)))
		case l.pending(engine):
			notes = append(notes, fmt.Sprintf("engine %s gets no requests for it until it has loaded it", engine))
		}
	}
	const shown = 8
	if more := len(notes) - shown; more > 0 {
		notes = append(notes[:shown], fmt.Sprintf("and %d more engines", more))
	}
	return notes
}

// withdraw unloads an adapter that is not to be used, as far as engines answer.
func (l *loads) withdraw(ctx workflow.Context, name string) {
	unsure := map[rollout.EngineID]bool{}
	for _, engine := range l.asked {
		_, loaded := l.seconds[engine]
		unsure[engine] = !loaded
	}
	withdraw(ctx, unloadActivity(), l.asked, unsure, name)
}

// withdraw unloads an adapter from engines; those that are unsure may have a load under way.
func withdraw(
	ctx workflow.Context, options workflow.ActivityOptions,
	engines []rollout.EngineID, unsure map[rollout.EngineID]bool, name string,
) {
	ctx = workflow.WithActivityOptions(ctx, options)
	var unloads []workflow.Future
	for _, engine := range engines {
		in := activities.UnloadInput{Engine: engine, Name: name, Loading: unsure[engine]}
		unloads = append(unloads, workflow.ExecuteActivity(ctx, acts.UnloadAdapter, in))
	}
	for i, unload := range unloads {
		if err := unload.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("unload adapter", "adapter", name, "engine", engines[i], "error", err)
		}
	}
}

// inspectActivity leaves time to read large weights from a slow disk.
func inspectActivity() workflow.ActivityOptions {
	options := loadActivity()
	options.StartToCloseTimeout, options.ScheduleToCloseTimeout = 10*time.Minute, 15*time.Minute
	return options
}

func unloadActivity() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: 5 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 2},
	}
}

// loadHeartbeat is how long a load may be silent: one whose worker has died begins again elsewhere.
const loadHeartbeat = 6 * time.Second

func loadActivity() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout:    60 * time.Second,
		HeartbeatTimeout:       loadHeartbeat,
		ScheduleToCloseTimeout: 150 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second, MaximumAttempts: 4,
		},
	}
}
