package axiom_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/observe/axiom"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// events is an event store in memory that works, with faults on request: the real one is tried in the server's tests.
type events struct {
	mu      sync.Mutex
	scopes  map[rollout.RunName]*scope
	letters []letter
	room    int // for dead letters; 0: any
	owner   string
	until   time.Time
	fence   int64
	status  telemetry.SinkStatus
	broken  func() error    // nil, or why a call fails
	trim    int             // most events that a scope keeps unshipped; 0: any
	written map[string]bool // event ids
	passed  int64           // events that were acknowledged
}

type scope struct {
	kept    []store.Record
	next    int
	fence   int64
	trimmed int64
}

type letter struct {
	store.Record
	reason string
}

var _ axiom.Events = (*events)(nil)

func newEvents() *events {
	return &events{scopes: map[rollout.RunName]*scope{}, written: map[string]bool{}}
}

// Emit keeps an event.
func (e *events) Emit(event telemetry.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	data, err := telemetry.Encode(event)
	if err != nil {
		panic(err)
	}
	e.written[event.ID()] = true
	e.add(event.Run, event.Kind(), data)
}

// put keeps an event of any form.
func (e *events) put(run rollout.RunName, kind string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(run, kind, data)
}

func (e *events) add(run rollout.RunName, kind string, data []byte) {
	s := e.scopes[run]
	if s == nil {
		s = &scope{}
		e.scopes[run] = s
	}
	s.next++
	s.kept = append(s.kept, store.Record{ID: fmt.Sprintf("%d-%d", time.Now().UnixMilli(), s.next), Kind: kind, Data: data,
		Scope: run})
	if e.trim > 0 && len(s.kept) > e.trim {
		s.trimmed += int64(len(s.kept) - e.trim)
		s.kept = slices.Delete(s.kept, 0, len(s.kept)-e.trim)
	}
}

func (e *events) enter() error {
	e.mu.Lock()
	if e.broken != nil {
		return e.broken()
	}
	return nil
}

func (e *events) Scopes(context.Context) ([]rollout.RunName, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return nil, err
	}
	var out []rollout.RunName
	for name, s := range e.scopes {
		if len(s.kept) > 0 {
			out = append(out, name)
		}
	}
	return out, nil
}

func (e *events) Unshipped(_ context.Context, run rollout.RunName, limit int) (delivery.Portion, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return delivery.Portion{}, err
	}
	p := delivery.Portion{Scope: run}
	if s := e.scopes[run]; len(s.kept) > 0 {
		p.Records, p.Last = slices.Clone(s.kept[:min(limit, len(s.kept))]), s.kept[len(s.kept)-1].ID
	}
	return p, nil
}

func (e *events) Acknowledge(_ context.Context, fence int64, p delivery.Portion) error {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	s := e.scopes[p.Scope]
	if fence < e.fence || fence < s.fence {
		return delivery.ErrFenced
	}
	s.fence = fence
	before := len(s.kept)
	s.kept = slices.DeleteFunc(s.kept, func(r store.Record) bool {
		return slices.ContainsFunc(p.Records, func(of store.Record) bool { return of.ID == r.ID })
	})
	e.passed += int64(before - len(s.kept))
	return nil
}

func (e *events) DeadLetter(_ context.Context, r store.Record, reason string) error {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	if e.room > 0 && len(e.letters) >= e.room {
		return delivery.ErrDeadLettersFull
	}
	e.letters = append(e.letters, letter{r, reason})
	return nil
}

func (e *events) Lease(_ context.Context, owner string, ttl time.Duration) (int64, bool, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return 0, false, err
	}
	now := time.Now()
	switch {
	case e.owner == owner && now.Before(e.until):
	case e.owner == "" || !now.Before(e.until):
		e.owner = owner
		e.fence++
	default:
		return e.fence, false, nil
	}
	e.until = now.Add(ttl)
	return e.fence, true, nil
}

func (e *events) Release(_ context.Context, owner string) error {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	if e.owner == owner {
		e.owner = ""
	}
	return nil
}

func (e *events) SinkStatus(context.Context) (telemetry.SinkStatus, error) {
	defer e.mu.Unlock()
	err := e.enter()
	return e.status, err
}

func (e *events) SaveSinkStatus(_ context.Context, fence int64, status telemetry.SinkStatus) error {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	if fence < e.fence {
		return delivery.ErrFenced
	}
	e.status = status
	return nil
}

// now is the status as somebody who asks sees it, with what the store counts.
func (e *events) now() telemetry.SinkStatus {
	waiting := int64(e.backlog())
	e.mu.Lock()
	defer e.mu.Unlock()
	status := e.status.Seen(time.Now())
	status.Backlog, status.DeadLettered = waiting, int64(len(e.letters))
	status.Delivered = e.passed - status.DeadLettered
	return status
}

func (e *events) backlog() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, s := range e.scopes {
		n += len(s.kept)
	}
	return n
}

var errRedis = errors.New("redis: connection refused")
