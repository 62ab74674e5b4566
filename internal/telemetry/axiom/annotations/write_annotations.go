package annotations

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	client "github.com/axiomhq/axiom-go/axiom"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// Name is this sink's, in cursors.
const Name = "axiom-annotations"

// Caller makes one call of Axiom's API; axiom-go's client is one.
type Caller interface {
	Call(ctx context.Context, method, path string, body, answer any) error
}

// Events is what a Writer needs of the event store.
type Events interface {
	Scopes(ctx context.Context, sink string) ([]rollout.RunName, error)
	Unshipped(ctx context.Context, sink string, scope rollout.RunName, limit int) ([]store.Record, store.Lag, error)
	Acknowledge(ctx context.Context, sink string, fence int64, scope rollout.RunName, ids ...string) error
	Lease(ctx context.Context, sink, owner string, ttl time.Duration) (fence int64, mine bool, err error)
	Release(ctx context.Context, sink, owner string) error
}

var _ Events = (*store.Store)(nil)

const (
	look  = 5 * time.Second  // how often it looks for new facts
	lease = 30 * time.Second // after which another server takes over
	page  = 1000             // events at once
	late  = time.Hour        // after which what could not be written is left out
	pause = time.Minute      // after Axiom did not answer, or asked for less
)

// Writer writes the annotations of a deployment while it holds the lease.
type Writer struct {
	dataset string
	axiom   Caller
	events  Events
	owner   string
	log     *slog.Logger

	cancel context.CancelFunc
	ended  chan struct{}

	// doubtful: some of what comes next may have been written already, by another server or with an answer that was lost.
	doubtful bool
	refused  bool // and that was logged
}

// New makes a writer. owner is this process's name among those that may write. Nothing is written until Start.
func New(dataset string, axiom Caller, events Events, owner string, log *slog.Logger) *Writer {
	return &Writer{dataset: dataset, axiom: axiom, events: events, owner: owner, log: log}
}

// Start begins to write, in the background, until Close.
func (w *Writer) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.ended = make(chan struct{})
	go func() {
		defer close(w.ended)
		w.run(ctx)
	}()
}

// Close stops writing, and gives the lease back.
func (w *Writer) Close() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	<-w.ended
	ctx, cancel := context.WithTimeout(context.Background(), look)
	defer cancel()
	_ = w.events.Release(ctx, Name, w.owner) // else it ends by itself
}

// run looks for facts again and again. The lease is renewed with every look, and outlasts the longest of them.
func (w *Writer) run(ctx context.Context) {
	var last int64 // fence
	for ctx.Err() == nil {
		fence, mine, err := w.events.Lease(ctx, Name, w.owner, lease)
		wait := look
		if err == nil && mine {
			w.doubtful = w.doubtful || fence != last
			last = fence
			wait = w.round(ctx, fence)
		}
		_ = retry.Pause(ctx, wait) // the loop sees that ctx is done
	}
}

// round writes what is new, and returns how long to wait before the next.
func (w *Writer) round(ctx context.Context, fence int64) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, lease-look)
	defer cancel()
	scopes, err := w.events.Scopes(ctx, Name)
	if err != nil {
		return look
	}
	for _, scope := range scopes {
		for more := true; more && ctx.Err() == nil; {
			if more, err = w.part(ctx, fence, scope); err != nil {
				return pauseOf(err)
			}
		}
	}
	return look
}

// part writes what comes next of a scope, and reports whether there may be more.
func (w *Writer) part(ctx context.Context, fence int64, scope rollout.RunName) (more bool, err error) {
	records, _, err := w.events.Unshipped(ctx, Name, scope, page)
	if err != nil || len(records) == 0 {
		return false, err
	}
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	if err := w.write(ctx, Of(w.dataset, records)); err != nil {
		return false, err
	}
	if err := w.events.Acknowledge(ctx, Name, fence, scope, ids...); err != nil {
		w.doubtful = true
		return false, errStore
	}
	return len(records) == page, nil
}

// errStore is that the cursor could not be moved; the events are listed again.
var errStore = errors.New("the event store does not answer")

func pauseOf(err error) time.Duration {
	var limit client.LimitError
	if errors.Is(err, errStore) {
		return look
	}
	if errors.As(err, &limit) {
		return min(max(time.Until(limit.Limit.Reset), look), 5*pause)
	}
	return pause
}

// write makes annotations. An error means that they are to be tried again; what Axiom refuses for good is left out.
func (w *Writer) write(ctx context.Context, list []Annotation) error {
	list = slices.DeleteFunc(list, func(a Annotation) bool { return time.Since(a.Time) > late })
	if len(list) == 0 {
		return nil
	}
	written, err := w.written(ctx, list[0].Time)
	if err != nil && !w.hopeless(err) {
		return err
	}
	for _, a := range list {
		if written(a) {
			continue
		}
		err := w.axiom.Call(ctx, http.MethodPost, "/v2/annotations", a, &struct{}{})
		switch {
		case err == nil:
			w.refused = false
		case !w.hopeless(err):
			w.doubtful = true
			return err
		}
	}
	w.doubtful = false
	return nil
}

// hopeless reports whether Axiom will refuse the same again, and says so once.
func (w *Writer) hopeless(err error) bool {
	var answer client.HTTPError
	var limit client.LimitError
	if errors.As(err, &limit) || !errors.As(err, &answer) || answer.Status >= 500 || answer.Status == 408 ||
		answer.Status == 429 || answer.Status == 430 {
		return false
	}
	if !w.refused {
		w.refused = true
		w.log.Warn("annotations are not written to Axiom; events are not concerned. Give the token the permissions "+
			"annotations: create and read", "dataset", w.dataset, "answer", err)
	}
	return true
}

// written finds out, where there is doubt, which annotations are there already: they name their events.
func (w *Writer) written(ctx context.Context, since time.Time) (func(Annotation) bool, error) {
	none := func(Annotation) bool { return false }
	if !w.doubtful {
		return none, nil
	}
	query := url.Values{"datasets": {w.dataset}, "start": {since.Add(-time.Minute).UTC().Format(time.RFC3339)}}
	var have []Annotation
	if err := w.axiom.Call(ctx, http.MethodGet, "/v2/annotations?"+query.Encode(), nil, &have); err != nil {
		return none, err
	}
	ids := map[string]bool{}
	for _, a := range have {
		for _, line := range strings.Split(a.Description, "\n") {
			if id, ok := strings.CutPrefix(line, "event_id "); ok {
				ids[id] = true
			}
		}
	}
	return func(a Annotation) bool {
		for _, line := range strings.Split(a.Description, "\n") {
			if id, ok := strings.CutPrefix(line, "event_id "); ok && !ids[id] {
				return false
			}
		}
		return true
	}, nil
}
