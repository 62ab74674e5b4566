package annotations_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/axiom/annotations"
	"github.com/millrace/millrace/internal/telemetry/axiom/axiomtest"
	"github.com/millrace/millrace/internal/telemetry/axiom/resources"
	"github.com/millrace/millrace/internal/telemetry/store"
)

var begin = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)

func record(t *testing.T, at time.Time, body telemetry.Body) store.Record {
	t.Helper()
	e := telemetry.Event{At: at, Run: "demo", Engine: "gpu-1", Key: fmt.Sprint(at.UnixNano()), Body: body}
	data, err := telemetry.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return store.Record{ID: fmt.Sprintf("%d-0", at.UnixMilli()), Kind: e.Kind(), Data: data}
}

func published(version rollout.PolicyVersion, state rollout.PolicyState) telemetry.PolicyPublished {
	return telemetry.PolicyPublished{Policy: rollout.Policy{Version: version, State: state, Reason: "digest differs"}}
}

// TestOf is what is marked, and how: type, title, and from when to when.
func TestOf(t *testing.T) {
	t.Parallel()
	at := func(sec int) time.Time { return begin.Add(time.Duration(sec) * time.Second) }
	records := []store.Record{
		record(t, at(0), telemetry.RunChanged{State: rollout.RunRunning, Change: "start"}),
		record(t, at(1), telemetry.GroupDropped{Code: "stale"}),
		record(t, at(2), published(1, rollout.PolicyLoading)),
		record(t, at(3), published(1, rollout.PolicyServing)),
		record(t, at(30), published(2, rollout.PolicyServing)),
		record(t, at(40), telemetry.EngineChanged{State: rollout.EngineLost, Reason: "refused"}),
		record(t, at(70), published(3, rollout.PolicyServing)),
		record(t, at(200), published(4, rollout.PolicyServing)),
		record(t, at(210), published(5, rollout.PolicyRejected)),
		record(t, at(220), telemetry.RunChanged{State: rollout.RunRunning, Change: "set buffer.depth=4 (was 2)"}),
		{Kind: "diagnosed", Data: []byte(`{"kind":"diagnosed","_time":"2026-01-02T03:09:00Z","event_id":"d1","run_id":"demo",
			"verdict":"problem","was":"healthy","cause":"engine_lost","text":"A step takes 150 s more."}`)},
		{Kind: "engine_changed", Data: []byte(`null`)},
	}
	var got []string
	for _, a := range annotations.Of("rl", records) {
		line := fmt.Sprintf("%s %s %s", a.Time.Format("04:05"), a.Type, a.Title)
		if a.EndTime != nil {
			line += a.EndTime.Format(" until 04:05")
		}
		got = append(got, line)
		if !strings.Contains(a.Description, "event_id ") || a.Datasets[0] != "rl" {
			t.Errorf("%+v", a)
		}
	}
	if want := []string{
		"04:00 run demo: start",
		"04:03 publication demo: versions 1 to 3 serve until 05:10",
		"04:40 engine gpu-1: lost",
		"07:20 publication demo: version 4 serves",
		"07:30 publication demo: version 5 was rejected",
		"07:40 run demo: set buffer.depth=4 (was 2)",
		"09:00 verdict demo: problem: engine_lost (was healthy)",
	}; !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// memory is an event store of one run.
type memory struct {
	mu      sync.Mutex
	records []store.Record
	done    int
	owner   string
	fence   int64
	deaf    bool // acknowledges nothing
}

func (m *memory) Scopes(context.Context, string) ([]rollout.RunName, error) {
	return []rollout.RunName{"demo"}, nil
}

func (m *memory) Unshipped(_ context.Context, _ string, _ rollout.RunName, limit int) ([]store.Record, store.Lag,
	error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := m.records[m.done:]
	return slices.Clone(rest[:min(limit, len(rest))]), store.Lag{}, nil
}

func (m *memory) Acknowledge(_ context.Context, _ string, fence int64, _ rollout.RunName, ids ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deaf {
		return errors.New("connection refused")
	}
	if fence != m.fence {
		return store.ErrFenced
	}
	m.done += len(ids)
	return nil
}

func (m *memory) Lease(_ context.Context, _, owner string, _ time.Duration) (int64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner == "" {
		m.owner = owner
		m.fence++
	}
	return m.fence, m.owner == owner, nil
}

func (m *memory) Release(_ context.Context, _, owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner == owner {
		m.owner = ""
	}
	return nil
}

func (m *memory) add(records ...store.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, records...)
}

func (m *memory) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.records) - m.done
}

func start(t *testing.T, fake *axiomtest.Server, events *memory, owner string, log *slog.Logger) *annotations.Writer {
	t.Helper()
	axiom, err := resources.Connect("xaat-test", "", "http://axiom.test", &http.Client{Transport: fake})
	if err != nil {
		t.Fatal(err)
	}
	w := annotations.New("rl", axiom, events, owner, log)
	w.Start(t.Context())
	return w
}

// TestWriter writes each mark once, through outages, a takeover and a store that does not hear.
func TestWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		fake, events := &axiomtest.Server{Dataset: "rl", Token: "xaat-test"}, &memory{}
		events.add(record(t, time.Now(), telemetry.EngineChanged{State: rollout.EngineReady}),
			record(t, time.Now(), telemetry.GroupDropped{Code: "stale"}))
		events.deaf = true
		w := start(t, fake, events, "a", log)
		time.Sleep(30 * time.Second)
		w.Close()
		if n := len(fake.Annotations()); n != 1 || events.left() != 2 {
			t.Errorf("%d annotations, %d events left", n, events.left())
		}
		events.deaf = false
		w = start(t, fake, events, "b", log)
		defer w.Close()
		time.Sleep(30 * time.Second)
		if n := len(fake.Annotations()); n != 1 || events.left() != 0 {
			t.Errorf("after a takeover: %d annotations, %d events left", n, events.left())
		}
		switchOn(t, fake, "503-text", true)
		events.add(record(t, time.Now(), telemetry.EngineChanged{State: rollout.EngineLost}))
		time.Sleep(10 * time.Minute)
		switchOn(t, fake, "503-text", false)
		time.Sleep(2 * time.Minute)
		if n := len(fake.Annotations()); n != 2 || events.left() != 0 {
			t.Errorf("after an outage: %d annotations, %d events left", n, events.left())
		}
		switchOn(t, fake, "refuse", true)
		events.add(record(t, time.Now(), telemetry.EngineChanged{State: rollout.EngineReady}))
		time.Sleep(10 * time.Hour)
		if events.left() != 0 {
			t.Error("what is too late for a mark is kept for ever")
		}
	})
}

func switchOn(t *testing.T, fake *axiomtest.Server, name string, on bool) {
	t.Helper()
	if err := fake.Switch(name, on); err != nil {
		t.Fatal(err)
	}
}

// TestTokenThatMayOnlyIngest costs a line in the log, and holds nothing back.
func TestTokenThatMayOnlyIngest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		fake, events := &axiomtest.Server{Dataset: "rl", Permissions: []string{"ingest|create"}}, &memory{}
		w := start(t, fake, events, "a", slog.New(slog.NewTextHandler(&said, nil)))
		defer w.Close()
		for range 3 {
			events.add(record(t, time.Now(), telemetry.EngineChanged{State: rollout.EngineReady}))
			time.Sleep(time.Minute)
		}
		if n := strings.Count(said.String(), "annotations: create and read"); n != 1 || events.left() != 0 {
			t.Errorf("said %d times, %d events left: %s", n, events.left(), said.String())
		}
	})
}
