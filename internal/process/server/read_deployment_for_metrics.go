package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/observe/prom"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// stand shows how the deployment is. While Redis does not answer, what was read last stays.
func (m *metricsFeed) stand(ctx context.Context, runs []runstatus.RunStatus, err error, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	engines, enginesErr := m.conns.Registry.List(ctx)
	workers, workersErr := m.conns.Workers.List(ctx)
	scaling, scalingErr := m.conns.Registry.Scaled(ctx)
	answers := err == nil && enginesErr == nil && workersErr == nil && scalingErr == nil
	m.metrics.RedisAnswers(answers)
	if !answers {
		return
	}
	m.metrics.Stand(prom.Standing{Runs: m.reader.read(ctx, runs, now), Engines: engines, Scaling: scaling,
		Workers: append([]enginestate.Worker{}, workers...)})
}

// standingReader reads the latest steps of the runs that go on, each record once.
type standingReader struct {
	steps interface {
		Steps(ctx context.Context, run rollout.RunName, from rollout.Step, limit int) ([]steprecord.StepRecord, error)
	}
	// facts are those of a run after a position: who has just begun to look learns from them when it was resumed.
	facts interface {
		Facts(ctx context.Context, run rollout.RunName, after string, limit int, kinds ...string) ([]store.Record, error)
	}
	known map[rollout.RunName]*knownRun
}

// knownRun is what was read of a run.
type knownRun struct {
	state   runstatus.RunState
	resumed time.Time // when it was last seen to go on after it did not
	told    bool      // what happened to it before it was seen first is known
	next    rollout.Step
	latest  []steprecord.StepRecord
}

func (s *standingReader) read(ctx context.Context, runs []runstatus.RunStatus, now time.Time) []prom.RunStanding {
	out, seen := make([]prom.RunStanding, len(runs)), map[rollout.RunName]bool{}
	for i, status := range runs {
		name := status.Spec.Name
		k := s.known[name]
		switch {
		case k == nil:
			k = &knownRun{}
			s.known[name] = k
		case k.state != status.State && status.State == runstatus.RunRunning:
			k.resumed = now
		}
		k.state, seen[name] = status.State, true
		k.refresh(ctx, s, status)
		k.learn(ctx, s, status)
		out[i] = prom.RunStanding{Status: status, Latest: k.latest, Since: k.since(status)}
	}
	for name := range s.known {
		if !seen[name] {
			delete(s.known, name)
		}
	}
	return out
}

// refresh reads the records of the latest steps when there is a new one. A failure is tried again with the next look.
func (k *knownRun) refresh(ctx context.Context, s *standingReader, status runstatus.RunStatus) {
	if k.next == status.NextStep {
		return
	}
	from := max(0, status.NextStep-prom.LatestSteps)
	records, err := s.steps.Steps(ctx, status.Spec.Name, from, prom.LatestSteps)
	if err != nil {
		return
	}
	k.latest = k.latest[:0:0]
	for _, r := range records {
		if r.Done && r.Step < status.NextStep {
			k.latest = append(k.latest, withoutGroups(r))
		}
	}
	k.next = status.NextStep
}

// learnAtOnce bounds the changes of a run since its latest step that are read.
const learnAtOnce = 1000

// learn finds out when a run was resumed before it was seen first, since its latest step: a server that has just been
// started has not seen the pause. A failure is tried again with the next look.
func (k *knownRun) learn(ctx context.Context, s *standingReader, status runstatus.RunStatus) {
	if k.told || k.next != status.NextStep {
		return
	}
	after := fmt.Sprintf("%d-0", k.since(status).UnixMilli())
	records, err := s.facts.Facts(ctx, status.Spec.Name, after, learnAtOnce, telemetry.KindOf(telemetry.RunChanged{}))
	if err != nil {
		return
	}
	k.told = true
	for _, r := range records {
		event, err := r.Event()
		if err != nil {
			continue // of another version
		}
		b, ok := event.Body.(telemetry.RunChanged)
		if ok && strings.HasSuffix(b.Change, "resume") && event.At.After(k.resumed) { // settings may stand before it
			k.resumed = event.At
		}
	}
}

// withoutGroups leaves out what is large and not shown.
func withoutGroups(r steprecord.StepRecord) steprecord.StepRecord {
	r.Service.Groups, r.Service.Engines, r.Trainer.Metrics = nil, nil, nil
	return r
}

func (k *knownRun) since(status runstatus.RunStatus) time.Time {
	since := status.StartedAt
	if n := len(k.latest); n > 0 && k.latest[n-1].Service.CompletedAt.After(since) {
		since = k.latest[n-1].Service.CompletedAt
	}
	if k.resumed.After(since) {
		since = k.resumed
	}
	return since
}
