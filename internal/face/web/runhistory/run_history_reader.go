package runhistory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// Steps is where the records of steps are read from.
type Steps interface {
	// AllSteps is the records of granted steps from one on.
	AllSteps(ctx context.Context, run rollout.RunName, from rollout.Step, limit int) ([]steprecord.StepRecord, error)
}

// Events is where facts and samples are read from.
type Events interface {
	// Facts is up to limit facts of some kinds after the one with id after, oldest first; the run "" is the fleet.
	Facts(ctx context.Context, run rollout.RunName, after string, limit int, kinds ...string) ([]store.Record, error)
	// Samples is those of some kinds among up to limit events that were seen lately, after the one with id after; next is
	// where to read on, and more reports whether there is more.
	Samples(ctx context.Context, run rollout.RunName, after string, limit int, kinds ...string) (found []store.Record,
		next string, more bool, err error)
}

const (
	// MostSteps is how many steps are kept of a run, the latest: pages say where others are missing.
	MostSteps = 20_000
	mostRuns  = 64
	// overlap is how many steps that were read before are read again: what is known of a step grows for a moment, and
	// a trainer that went back has put others in their place.
	overlap     = 8
	stepsPage   = 250
	factsPage   = 2_000
	readTimeout = 2 * time.Minute
)

// View is a run's history as it is known now.
type View struct {
	Steps  []Step // completed ones, in their order
	Facts  Facts
	Behind bool // more is being read
}

// History is the histories of runs. It may be used concurrently.
type History struct {
	steps  Steps
	events Events
	panics panics.Watch

	mu    sync.Mutex
	runs  map[rollout.RunName]*run
	fleet run
}

// New keeps no history yet. Survived hears of faults of the program while something is read.
func New(steps Steps, events Events, survived panics.Watch) *History {
	return &History{steps: steps, events: events, panics: survived, runs: map[rollout.RunName]*run{}}
}

// run is the history of one run. Slices are never written to once they are in view: readers hold them.
type run struct {
	id    rollout.RunName
	view  View
	after string // the last fact that was read
	// sampled is the last event that was looked at for samples.
	sampled string
	life    int           // how often the run's Redis came back older
	next    rollout.Step  // first step that is not completed
	read    time.Time     // when it was last read to its end
	asked   time.Time     // for the last time
	reader  chan struct{} // closed when the reading under way ends; nil: there is none
}

// Of is the history of a run, and of the fleet beside it. It reads what is new, and waits for that: not at all for
// longer than fresh ago, else as long as patience lasts; for a run that nobody has asked for before, ten times that.
func (h *History) Of(ctx context.Context, status runstatus.RunStatus, fresh, patience time.Duration) (View, Facts) {
	h.mu.Lock()
	one := h.runs[status.Spec.Name]
	if one == nil {
		h.makeRoom()
		one = &run{id: status.Spec.Name}
		h.runs[one.id] = one
	}
	one.asked, one.next = time.Now(), status.NextStep
	if status.Rollbacks != one.life { // what was read may never have been
		one.life, one.view, one.after, one.sampled, one.read = status.Rollbacks, View{}, "", "", time.Time{}
	}
	if one.read.IsZero() {
		patience *= 10
	}
	running := []chan struct{}{h.refresh(ctx, one, fresh), h.refresh(ctx, &h.fleet, fresh)}
	h.mu.Unlock()
	await(ctx, running, patience)
	h.mu.Lock()
	defer h.mu.Unlock()
	view := one.view
	view.Behind = one.reader != nil && one.read.IsZero()
	return view, h.fleet.view.Facts
}

// Fleet is what happened to the fleet, read as Of reads it.
func (h *History) Fleet(ctx context.Context, fresh, patience time.Duration) Facts {
	h.mu.Lock()
	if h.fleet.read.IsZero() {
		patience *= 10
	}
	running := []chan struct{}{h.refresh(ctx, &h.fleet, fresh)}
	h.mu.Unlock()
	await(ctx, running, patience)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fleet.view.Facts
}

func await(ctx context.Context, running []chan struct{}, patience time.Duration) {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for _, one := range running {
		if one == nil {
			continue
		}
		select {
		case <-one:
		case <-enough.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// makeRoom forgets the run that nobody has asked for the longest. The lock is held.
func (h *History) makeRoom() {
	if len(h.runs) < mostRuns {
		return
	}
	var oldest *run
	for _, one := range h.runs {
		if one.reader == nil && (oldest == nil || one.asked.Before(oldest.asked)) {
			oldest = one
		}
	}
	if oldest != nil {
		delete(h.runs, oldest.id)
	}
}

// refresh begins to read what is new, unless it was read just now or is being read. The lock is held.
func (h *History) refresh(ctx context.Context, one *run, fresh time.Duration) chan struct{} {
	if one.reader == nil && time.Since(one.read) >= fresh {
		one.reader = make(chan struct{})
		go h.readAll(context.WithoutCancel(ctx), one, one.reader) // others may wait for it when this caller has gone
	}
	return one.reader
}

func (h *History) readAll(ctx context.Context, one *run, ended chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := h.panics.Catch("history", func() error {
		err := h.readFacts(ctx, one)
		if err == nil && one.id != "" {
			err = h.readSteps(ctx, one)
		}
		if err == nil {
			err = h.readSamples(ctx, one)
		}
		return err
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.panics.Log.Warn("read a run's history for the page", "run", one.id, "error", err)
	} else {
		one.read = time.Now()
	}
	one.reader = nil
	close(ended)
}

// readSteps adds the steps that were completed since, page by page, so that a long history is shown as it comes.
func (h *History) readSteps(ctx context.Context, one *run) error {
	h.mu.Lock()
	known, end := one.view.Steps, one.next
	h.mu.Unlock()
	kept := known[:max(0, len(known)-overlap)]
	from := max(0, end-MostSteps)
	if n := len(kept); n > 0 {
		from = max(from, kept[n-1].No+1)
	}
	for compared := false; from < end || !compared; compared = true {
		records, err := h.steps.AllSteps(ctx, one.id, from, stepsPage)
		if err != nil {
			return err
		}
		if !compared && replaced(known[len(kept):], records) {
			kept, known, from = nil, nil, max(0, end-MostSteps)
			h.mu.Lock()
			one.view.Steps = nil
			h.mu.Unlock()
			continue
		}
		rows := slices.Clone(kept)
		for _, r := range records {
			if r.Done || r.LostRecord {
				rows = append(rows, RowOf(r))
			}
		}
		kept, from = latest(rows, MostSteps), from+stepsPage // a page may have holes
		h.mu.Lock()
		if len(kept) >= len(one.view.Steps) || from >= end {
			one.view.Steps = kept
		}
		h.mu.Unlock()
	}
	return nil
}

// replaced reports whether the steps that were read before are not those that there are now.
func replaced(known []Step, records []steprecord.StepRecord) bool {
	for i, k := range known {
		if i >= len(records) {
			return true
		}
		r := records[i]
		if r.Step != k.No || r.Generation != k.Generation || !r.Service.CompletedAt.Equal(k.At) {
			return true
		}
	}
	return false
}

func (h *History) readFacts(ctx context.Context, one *run) error {
	kinds := kindsOfRun()
	if one.id == "" {
		kinds = kindsOfFleet()
	}
	for {
		h.mu.Lock()
		after, facts := one.after, one.view.Facts
		h.mu.Unlock()
		page, err := h.events.Facts(ctx, one.id, after, factsPage, kinds...)
		if err != nil {
			return err
		}
		for _, f := range page {
			after = f.ID
			if event, err := f.Event(); err == nil { // else of another version, which this one cannot read
				facts.add(event)
			}
		}
		facts.bound()
		h.mu.Lock()
		one.after, one.view.Facts = after, facts
		h.mu.Unlock()
		if len(page) < factsPage {
			return nil
		}
	}
}
