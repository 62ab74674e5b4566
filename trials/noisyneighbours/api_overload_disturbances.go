package noisyneighbours

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// tally counts the answers that a crowd was given.
type tally struct {
	mu       sync.Mutex
	statuses map[string]int
}

func (t *tally) note(a apiclient.Answer, err error) {
	status := fmt.Sprint(a.Status)
	switch {
	case err != nil && ours(err):
		status = "open at the end"
	case err != nil:
		status = "no answer"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.statuses == nil {
		t.statuses = map[string]int{}
	}
	t.statuses[status]++
}

// String is "588 x 201, 12 x 503".
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(t.statuses)) {
		parts = append(parts, fmt.Sprintf("%d x %s", t.statuses[status], status))
	}
	return strings.Join(parts, ", ")
}

// bursts has n callers call at the same time, waits for all, rests, and does it again until ctx is done.
func bursts(ctx context.Context, n int, call func(ctx context.Context, round, i int) (apiclient.Answer, error)) *tally {
	const rest = 500 * time.Millisecond
	t := &tally{}
	for round := 0; retry.Pause(ctx, rest) == nil; round++ {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { t.note(call(ctx, round, i)) })
		}
		all.Wait()
	}
	return t
}

func changeEngines(ctx context.Context, s *site) (string, error) {
	const n = 100
	names := make([]string, n)
	for i := range names {
		names[i] = s.unique("changing")
	}
	t := bursts(ctx, n, func(ctx context.Context, round, i int) (apiclient.Answer, error) {
		body := map[string]any{"url": fmt.Sprintf("http://127.78.0.%d:9", i+1), "max_in_flight": 1 + round%2}
		return s.call(ctx, http.MethodPut, "/v1/engines/"+names[i], body)
	})
	var errs []error
	for _, name := range names {
		errs = append(errs, s.undo(http.MethodDelete, "/v1/engines/"+name))
	}
	return t.String(), errors.Join(errs...)
}

func diagnose(ctx context.Context, s *site) (string, error) {
	t := bursts(ctx, 60, func(ctx context.Context, _, _ int) (apiclient.Answer, error) {
		return s.call(ctx, http.MethodGet, "/v1/runs/"+string(healthy)+"/diagnosis", nil)
	})
	return t.String(), nil
}

// waitingClaims has 2,000 callers wait for a batch that never comes.
func waitingClaims(ctx context.Context, s *site) (string, error) {
	spec := s.spec(rollout.RunName(s.unique("waiting")))
	spec.Model = "nobody/serves-this"
	stop, err := s.start(ctx, spec)
	if err != nil {
		return "", err
	}
	t := &tally{}
	var all sync.WaitGroup
	for range 2000 {
		all.Go(func() {
			for ctx.Err() == nil {
				a, err := s.call(ctx, http.MethodPost, "/v1/runs/"+string(spec.Name)+"/steps/0/claim?wait=30s", nil)
				t.note(a, err)
				if err != nil || a.Status >= http.StatusBadRequest {
					_ = retry.Pause(ctx, a.RetryAfter())
				}
			}
		})
	}
	all.Wait()
	return t.String(), stop()
}

// hold opens n connections to the server, sends text on each, and keeps them, unread, until ctx is done.
func (s *site) hold(ctx context.Context, n int, text string) (note string, err error) {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	refused := 0
	for range n {
		c, err := net.DialTimeout("tcp", s.Server, 5*time.Second)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			refused++
			continue
		}
		conns = append(conns, c)
		if _, err := c.Write([]byte(text)); err != nil {
			refused++
		}
	}
	wait(ctx)
	return fmt.Sprintf("%d held, %d refused", len(conns)-refused, refused), nil
}

func connections(ctx context.Context, s *site) (string, error) { return s.hold(ctx, 1500, "") }

func streams(ctx context.Context, s *site) (string, error) {
	const request = "GET /v1/runs/%s/events HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n"
	return s.hold(ctx, 1000, fmt.Sprintf(request, healthy, s.Server))
}

// bigRecords trains a run of its own whose records are as big as they may be, and has them read.
func bigRecords(ctx context.Context, s *site) (string, error) {
	spec := s.spec(rollout.RunName(s.unique("verbose")))
	spec.Group = runspec.GroupSpec{Samples: 1, MinSamples: 1}
	spec.Buffer.GroupsPerStep, spec.Buffer.OnStale = 1, runspec.KeepStale
	stop, err := s.start(ctx, spec)
	if err != nil {
		return "", err
	}
	metrics := map[string]float64{}
	for i := range 38_000 { // 0.95 MB as JSON
		metrics[fmt.Sprintf("layer.%05d.grad_norm", i)] = float64(i%9) / 8
	}
	written, read := &tally{}, &tally{}
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for retry.Pause(ctx, lookEvery) == nil {
				read.note(s.call(ctx, http.MethodGet, "/v1/runs/"+string(spec.Name)+"/steps?limit=1000", nil))
			}
		})
	}
	for step := 0; step < 40 && ctx.Err() == nil; {
		path := fmt.Sprintf("/v1/runs/%s/steps/%d", spec.Name, step)
		a, err := s.call(ctx, http.MethodPost, path+"/claim?wait=5s", nil)
		if err != nil || a.Status != http.StatusOK {
			_ = retry.Pause(ctx, lookEvery)
			continue
		}
		a, err = s.call(ctx, http.MethodPut, path, map[string]any{"wall_seconds": 1, "metrics": metrics})
		written.note(a, err)
		if a.Status >= http.StatusBadRequest {
			if _, err = s.call(ctx, http.MethodPut, path, map[string]any{"wall_seconds": 1}); err != nil {
				continue
			}
		}
		step++
	}
	wait(ctx)
	readers.Wait()
	return fmt.Sprintf("records: %s; lists: %s", written, read), stop()
}
