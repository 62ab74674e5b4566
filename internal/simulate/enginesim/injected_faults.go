package enginesim

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FaultKind is a way for an engine to misbehave.
type FaultKind string

// The faults.
const (
	FaultDrop     FaultKind = "drop"     // connections are closed without an answer
	FaultHang     FaultKind = "hang"     // requests are accepted and never answered
	FaultOverload FaultKind = "overload" // 503, the queue is full
	FaultScaling  FaultKind = "scaling"  // 503 whose error is a string
	FaultStatus   FaultKind = "status"   // any status with an error of that code
	FaultDead     FaultKind = "dead"     // EngineCore is gone: health 503, everything else 500
	FaultTruncate FaultKind = "truncate" // the body ends early
	FaultTrickle  FaultKind = "trickle"  // the body comes a byte at a time, Every apart
	FaultSlow     FaultKind = "slow"     // every step takes Factor times as long
)

// Fault is a misbehaviour to inject. Zero fields mean everything: every path, until cleared.
type Fault struct {
	Kind     FaultKind     `json:"kind"`
	Path     string        `json:"path,omitempty"`     // prefix of the request paths concerned
	Requests int           `json:"requests,omitempty"` // how many requests; then the fault is over
	Factor   float64       `json:"factor,omitempty"`   // of slow
	Status   int           `json:"status,omitempty"`   // of status
	Bytes    int           `json:"bytes,omitempty"`    // of truncate: how much gets through
	Every    time.Duration `json:"every,omitempty"`    // of trickle
}

// Validate reports why f cannot be injected.
func (f Fault) Validate() error {
	switch f.Kind {
	case FaultDrop, FaultHang, FaultOverload, FaultScaling, FaultDead, FaultTruncate:
	case FaultStatus:
		if f.Status < 400 || f.Status > 599 {
			return fmt.Errorf("fault %s: status %d is not an error", f.Kind, f.Status)
		}
	case FaultTrickle:
		if f.Every <= 0 {
			return fmt.Errorf("fault %s: every %v must be positive", f.Kind, f.Every)
		}
	case FaultSlow:
		if f.Factor <= 0 {
			return fmt.Errorf("fault %s: factor %g must be positive", f.Kind, f.Factor)
		}
	default:
		return fmt.Errorf("fault %q is unknown", f.Kind)
	}
	return nil
}

// faults are those in force, the latest first.
type faults struct {
	mu        sync.Mutex
	active    []*Fault
	downUntil time.Time
	crashed   chan struct{} // closed by the next restart
}

func newFaults() *faults { return &faults{crashed: make(chan struct{})} }

// crash drops the connections that hang.
func (f *faults) crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.crashed)
	f.crashed = make(chan struct{})
}

// take finds the fault that a request meets, and counts it. A hanging request ends when crashed
// is closed.
func (f *faults) take(path string) (fault Fault, crashed <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, active := range f.active {
		if !strings.HasPrefix(path, active.Path) {
			continue
		}
		if active.Requests > 0 {
			if active.Requests--; active.Requests == 0 {
				f.active = slices.Delete(f.active, i, i+1)
			}
		}
		return *active, f.crashed, true
	}
	return Fault{}, nil, false
}

func (f *faults) add(fault *Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = slices.Insert(f.active, 0, fault)
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active, f.downUntil = nil, time.Time{}
}

// startUp makes the engine unreachable for a while.
func (f *faults) startUp(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.downUntil = time.Now().Add(d)
}

func (f *faults) down() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.downUntil)
}

// Inject makes the engine misbehave from now on. It returns once the fault is in force.
func (e *Engine) Inject(ctx context.Context, fault Fault) error {
	if err := fault.Validate(); err != nil {
		return err
	}
	if fault.Kind == FaultSlow {
		return e.loop.do(ctx, func() { e.loop.sched.SetSlow(e.loop.now, fault.Factor) })
	}
	e.faults.add(&fault)
	if fault.Kind == FaultDead {
		return e.loop.do(ctx, func() { e.loop.abortAll(errDead) })
	}
	return nil
}

// Heal ends every fault. Requests that hang stay hung until their clients leave.
func (e *Engine) Heal(ctx context.Context) error {
	e.faults.clear()
	return e.loop.do(ctx, func() { e.loop.sched.SetSlow(e.loop.now, 1) })
}

// Restart is what a crash and a new process look like from outside: connections with requests
// are dropped, everything is for a while, and then an engine answers that has no adapters, no
// prefix cache and counters at zero.
func (e *Engine) Restart(ctx context.Context, down time.Duration) error {
	e.faults.clear()
	e.faults.startUp(down)
	e.faults.crash()
	e.adapters.clear()
	return e.loop.do(ctx, e.loop.crash)
}

// misbehave applies the faults in force to every request before anything else sees it.
func (e *Engine) misbehave(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, simPrefix) {
			next.ServeHTTP(w, r)
			return
		}
		if e.faults.down() {
			panic(http.ErrAbortHandler) // closes the connection without an answer
		}
		fault, crashed, ok := e.faults.take(r.URL.Path)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		if fault.Kind == FaultHang {
			hang(r.Context(), crashed)
		}
		fault.apply(w, r, next)
	})
}

// hang holds a request until its client leaves or the engine restarts.
func hang(ctx context.Context, crashed <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-crashed:
	}
	panic(http.ErrAbortHandler)
}

func (f Fault) apply(w http.ResponseWriter, r *http.Request, next http.Handler) {
	switch f.Kind {
	case FaultDrop:
		panic(http.ErrAbortHandler)
	case FaultOverload:
		fail(w, errOverloaded)
	case FaultScaling:
		writeJSON(w, http.StatusServiceUnavailable,
			map[string]string{"error": "The model is currently scaling. Please try again later."})
	case FaultStatus:
		fail(w, &apiError{f.Status, http.StatusText(f.Status), "", http.StatusText(f.Status)})
	case FaultDead:
		if r.URL.Path == "/health" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fail(w, errDead)
	case FaultTruncate, FaultTrickle:
		held := &heldResponse{header: http.Header{}, status: http.StatusOK}
		next.ServeHTTP(held, r)
		f.deliver(w, r, held)
	}
}

// deliver sends an answer badly.
func (f Fault) deliver(w http.ResponseWriter, r *http.Request, held *heldResponse) {
	for name, values := range held.header {
		w.Header()[name] = values
	}
	body := held.body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(held.status)
	flush := http.NewResponseController(w)
	if f.Kind == FaultTruncate {
		_, _ = w.Write(body[:min(f.Bytes, len(body))])
		_ = flush.Flush()
		panic(http.ErrAbortHandler)
	}
	ticker := time.NewTicker(f.Every)
	defer ticker.Stop()
	for i := range body {
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
		_, _ = w.Write(body[i : i+1])
		_ = flush.Flush()
	}
}

// heldResponse keeps an answer back.
type heldResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *heldResponse) Header() http.Header         { return h.header }
func (h *heldResponse) WriteHeader(status int)      { h.status = status }
func (h *heldResponse) Write(b []byte) (int, error) { return h.body.Write(b) }
