package fleetsample

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// Stores is where a service keeps what a sample is made from.
type Stores struct {
	Buffer   *buffer.Store
	Registry *fleet.Registry
	Samples  *fleet.Sampler
	Workers  *workerregistry.Registry
	Events   *store.Store
}

// Sampler samples a running service.
type Sampler struct {
	Stores
	now func() time.Time
}

// New samples the service whose stores these are.
func New(stores Stores, now func() time.Time) *Sampler { return &Sampler{stores, now} }

// Sample samples the fleet and its runs over the window since the sample that left memory, and returns the memory for
// the next one; nil: there was none. It writes nothing: a second call with the same memory samples the same window, a
// little longer.
//
// All members of the fleet count as its engines, no matter how they were added. Cold starts are not visible here: only
// the starter of engines knows. Memory of another program version that cannot be read counts as missing.
func (s *Sampler) Sample(ctx context.Context, left json.RawMessage) (scaling.Sample, json.RawMessage, error) {
	var m memory
	if len(left) > 0 && json.Unmarshal(left, &m) != nil {
		m = memory{}
	}
	l, err := s.look(ctx, &m)
	if err != nil {
		return scaling.Sample{}, nil, fmt.Errorf("sample the fleet: %w", err)
	}
	sample := l.sample(&m)
	kept, err := json.Marshal(m)
	if err != nil {
		return scaling.Sample{}, nil, fmt.Errorf("sample the fleet: %w", err)
	}
	return sample, kept, nil
}

// fitEvery is how often the engines' curve is fitted anew, and fitOver to what time.
const (
	fitEvery = time.Minute
	fitOver  = 10 * time.Minute
)

// look reads what has changed since the last sample.
func (s *Sampler) look(ctx context.Context, m *memory) (*look, error) {
	l := &look{now: s.now().UTC(), runs: []runLook{}}
	var err error
	if l.engines, err = s.Registry.List(ctx); err != nil {
		return nil, err
	}
	adapters, err := s.Registry.Wanted(ctx)
	if err != nil {
		return nil, err
	}
	l.adapters = len(adapters)
	if l.workers, err = s.Workers.List(ctx); err != nil {
		return nil, err
	}
	if l.work, l.newest, err = s.Samples.WorkSince(ctx, m.Work); err != nil {
		return nil, err
	}
	if !m.At.IsZero() {
		if l.fleet, err = s.Samples.View(ctx, "", m.At, l.now); err != nil {
			return nil, err
		}
	}
	if l.fits = l.now.Sub(m.FittedAt) >= fitEvery; l.fits {
		if l.views, err = s.Samples.Engines(ctx, l.now.Add(-fitOver), l.now); err != nil {
			return nil, err
		}
	}
	runs, err := s.Buffer.RecentlyActive(ctx)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if runs[i].Spec.Dispatch.Behind { // no engine is there for its sake
			for _, w := range l.workers {
				delete(w.Requests, runs[i].Spec.Name)
			}
			continue
		}
		known, is := m.Runs[runs[i].Spec.Name]
		r, err := s.lookAtRun(ctx, l.now, runs[i], known, is)
		if rollout.Refused(err, rollout.NoSuchRun) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", runs[i].Spec.Name, err)
		}
		l.runs = append(l.runs, r)
	}
	return l, nil
}

const (
	// firstSteps is of how many steps a run is known that is seen for the first time.
	firstSteps = 6
	// mostRecords bounds the steps of one look; the next one goes on.
	mostRecords = 64
	// clockSkew is how far the clocks of Redis and of whoever reports an event may be apart.
	clockSkew = time.Minute
)

// lookAtRun reads a run's news.
func (s *Sampler) lookAtRun(
	ctx context.Context, now time.Time, status runstatus.RunStatus, known runMemory, is bool,
) (runLook, error) {
	name := status.Spec.Name
	r := runLook{status: status}
	asked, err := s.Buffer.TrainerActivity(ctx, name)
	if err != nil {
		return r, err
	}
	r.next, r.asked, r.last = asked.Next, asked.First, asked.Last
	if r.counts, err = s.Buffer.Counts(ctx, name); err != nil {
		return r, err
	}
	from, after := known.Next, known.After
	if !is {
		from = r.next - firstSteps
	}
	if r.steps, err = s.Buffer.Steps(ctx, name, max(0, min(from, r.next)), mostRecords); err != nil {
		return r, err
	}
	if !is {
		since := status.StartedAt.Add(-clockSkew)
		if n := len(r.steps); n > 0 { // the groups of its batches are in its record
			since = r.steps[n-1].Service.GrantedAt
		}
		after = fmt.Sprintf("%d-0", max(0, since.UnixMilli()))
	}
	r.groups, r.after, err = s.readyGroups(ctx, name, after)
	return r, err
}

const (
	groupsPage = 1000
	mostPages  = 16
)

// readyGroups is the groups that became ready after an event, and the newest event.
func (s *Sampler) readyGroups(
	ctx context.Context, run rollout.RunName, after string,
) ([]steprecord.GroupView, string, error) {
	var groups []steprecord.GroupView
	for range mostPages {
		facts, err := s.Events.Facts(ctx, run, after, groupsPage, telemetry.KindOf(telemetry.GroupReady{}))
		if err != nil {
			return nil, after, err
		}
		for _, f := range facts {
			after = f.ID
			e, err := f.Event()
			if err != nil {
				continue // of another version of the program
			}
			if body, is := e.Body.(telemetry.GroupReady); is {
				groups = append(groups, body.Group)
			}
		}
		if len(facts) < groupsPage {
			break
		}
	}
	return groups, after, nil
}
