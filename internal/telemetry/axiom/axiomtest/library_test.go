package axiomtest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/axiomhq/axiom-go/axiom"
	"github.com/axiomhq/axiom-go/axiom/ingest"
	"github.com/axiomhq/axiom-go/axiom/query"
	"github.com/klauspost/compress/zstd"

	"github.com/millrace/millrace/internal/telemetry/axiom/axiomtest"
)

// library is axiom-go, as anybody would use it, at a fake.
func library(t *testing.T, fake *axiomtest.Server) *axiom.Client {
	t.Helper()
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	c, err := axiom.NewClient(axiom.SetNoEnv(), axiom.SetURL(server.URL), axiom.SetToken("xaat-test"), axiom.SetNoRetry(),
		axiom.SetNoTracing())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t *testing.T, text string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll([]byte(text), nil)
}

// TestLibraryIngests sends each form of a body in each encoding.
func TestLibraryIngests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	fake := &axiomtest.Server{Token: "xaat-test", Dataset: "d"}
	c := library(t, fake)
	list := `[{"_time":"2026-01-02T03:04:05.123456789Z","n":1},{"n":2}]`
	lines := "{\"n\":3,\"when\":1767323045}\n\n{\"n\":4,\"when\":\"2026-01-02 03:04:05\"}\n"
	for _, tt := range []struct {
		name string
		body []byte
		typ  axiom.ContentType
		enc  axiom.ContentEncoding
		with []ingest.Option
	}{
		{"list", []byte(list), axiom.JSON, axiom.Identity, nil},
		{"list, gzip", zipped(t, list), axiom.JSON, axiom.Gzip, nil},
		{"lines, zstd", zstandard(t, lines), axiom.NDJSON, axiom.Zstd, []ingest.Option{ingest.SetTimestampField("when")}},
		{"CSV", []byte("n,who\n5,\"a, b\"\n6,c\n"), axiom.CSV, axiom.Identity,
			[]ingest.Option{ingest.SetEventLabel("source", "csv")}},
		{"CSV without names", []byte("7;x\n8;y\n"), axiom.CSV, axiom.Identity,
			[]ingest.Option{ingest.SetCSVDelimiter(";"), ingest.AddCSVField("n"), ingest.AddCSVField("who")}},
	} {
		got, err := c.Ingest(ctx, "d", bytes.NewReader(tt.body), tt.typ, tt.enc, tt.with...)
		if err != nil || got.Ingested != 2 || got.Failed != 0 || got.TraceID == "" {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	if _, err := c.IngestEvents(ctx, "d", []axiom.Event{{"n": 9}}); err != nil {
		t.Error(err)
	}
	events := fake.Events()
	if len(events) != 11 || events[0]["_time"] != "2026-01-02T03:04:05.123456789Z" ||
		events[4]["_time"] != "2026-01-02T03:04:05Z" || events[5]["_time"] != "2026-01-02T03:04:05Z" ||
		events[6]["who"] != "a, b" || events[6]["source"] != "csv" || events[9]["who"] != "y" {
		t.Errorf("%v", events)
	}
}

// TestLibraryQueries asks with the library, times set and not.
func TestLibraryQueries(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := library(t, &axiomtest.Server{Dataset: "d"})
	if _, err := c.IngestEvents(ctx, "d", []axiom.Event{{"n": 1, "s": "a"}, {"n": 2.5, "s": "b"}}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	got, err := c.Query(ctx, `['d'] | summarize total = sum(n) by s | order by s asc`,
		query.SetStartTime(now.Add(-time.Hour)), query.SetEndTime(now.Add(time.Hour)))
	if err != nil || len(got.Tables) != 1 {
		t.Fatal(got, err)
	}
	table := got.Tables[0]
	if fmt.Sprint(table.Columns) != "[[a b] [1 2.5]]" || table.Fields[1].Name != "total" || table.Groups[0].Name != "s" ||
		table.Sources[0].Name != "d" || got.Status.RowsExamined != 2 {
		t.Errorf("%+v", got)
	}
	if got, err = c.Query(ctx, `['d'] | count`); err != nil || fmt.Sprint(got.Tables[0].Columns) != "[[0]]" {
		t.Errorf("times that were not set are the year 1: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		`['other'] | count`:       "API error 404: dataset other not found",
		`['d'] | where m == 1`:    "API error 400: line 1, column 15: there is no field m",
		`['d'] | join (e) on n`:   "API error 400",
		`['d'] | summarize ns(n)`: "API error 400",
	} {
		if _, err := c.Query(ctx, text, query.SetStartTime(now), query.SetEndTime(now)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestLibraryManages creates, changes and deletes one of each.
func TestLibraryManages(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := library(t, &axiomtest.Server{Strict: true})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Datasets.Create(ctx, axiom.DatasetCreateRequest{Name: "d", Description: "one"})
	must(err)
	_, err = c.Datasets.Update(ctx, "d", axiom.DatasetUpdateRequest{Description: "two"})
	must(err)
	_, err = c.Datasets.CreateMapField(ctx, "d", "metrics")
	must(err)
	_, err = c.Datasets.UpdateMapFields(ctx, "d", axiom.MapFields{"metrics", "labels"})
	must(err)
	must(c.Datasets.DeleteMapField(ctx, "d", "labels"))
	d, err := c.Datasets.Get(ctx, "d")
	must(err)
	if d.Description != "two" || fmt.Sprint(d.MapFields) != "[metrics]" {
		t.Errorf("%+v", d)
	}
	at := time.Now().UTC().Truncate(time.Second)
	a, err := c.Annotations.Create(ctx, &axiom.AnnotationCreateRequest{Datasets: []string{"d"}, Type: "publication",
		Title: "version 3", Time: at, EndTime: at.Add(time.Minute)})
	must(err)
	_, err = c.Annotations.Update(ctx, a.ID, &axiom.AnnotationUpdateRequest{Title: "version 4"})
	must(err)
	list, err := c.Annotations.List(ctx, nil)
	if err != nil || len(list) != 1 || list[0].Title != "version 4" || !list[0].Time.Equal(at) {
		t.Errorf("%+v, %v", list, err)
	}
	must(c.Annotations.Delete(ctx, a.ID))
	// The library sends the year 1 for an end that was not set.
	_, err = c.Annotations.Create(ctx, &axiom.AnnotationCreateRequest{Datasets: []string{"d"}, Type: "x", Time: at})
	if err == nil || !strings.Contains(err.Error(), "endTime is the year 1") {
		t.Errorf("%v", err)
	}
	n, err := c.Notifiers.Create(ctx, axiom.Notifier{Name: "us",
		Properties: axiom.NotifierProperties{Email: &axiom.EmailConfig{Emails: []string{"a@example.com"}}}})
	must(err)
	m := axiom.Monitor{Name: "m", Operator: axiom.Above, Threshold: 3, Interval: time.Minute, Range: 5 * time.Minute,
		NotifierIDs: []string{n.ID}, APLQuery: `['d'] | summarize count() by bin_auto(_time)`}
	made, err := c.Monitors.Create(ctx, axiom.MonitorCreateRequest{Monitor: m})
	must(err)
	m.Threshold = 4
	_, err = c.Monitors.Update(ctx, made.ID, axiom.MonitorUpdateRequest{Monitor: m})
	must(err)
	got, err := c.Monitors.Get(ctx, made.ID)
	if err != nil || got.Threshold != 4 || got.Range != 5*time.Minute || got.NotifierIDs[0] != n.ID {
		t.Errorf("%+v, %v", got, err)
	}
	must(c.Monitors.Delete(ctx, made.ID))
	must(c.Notifiers.Delete(ctx, n.ID))
	must(c.Datasets.Delete(ctx, "d"))
	if _, err := c.Datasets.Get(ctx, "d"); !errors.Is(err, axiom.ErrNotFound) {
		// errors.Is compares the status alone.
		t.Errorf("a deleted dataset: %v", err)
	}
}

// TestLibraryIsRefused: what the real one would not take.
func TestLibraryIsRefused(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Strict: true, Dataset: "d", Token: "xaat-test",
		Permissions: []string{"ingest|create", "datasets|read", "monitors|create"}}
	c := library(t, fake)
	ctx := t.Context()
	many := make([]axiom.Event, 10_001)
	for i := range many {
		many[i] = axiom.Event{"n": i}
	}
	call := func(path string, body any) error { return c.Call(ctx, "POST", path, body, nil) }
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"unknown dataset":    {first(c.IngestEvents(ctx, "other", many[:1])), "404: dataset not found"},
		"too many events":    {first(c.IngestEvents(ctx, "d", many)), "413: 10001 events in a request"},
		"no permission":      {first(c.Annotations.List(ctx, nil)), "403: forbidden"},
		"monitor of nothing": {call("/v2/monitors", map[string]any{"name": "m", "type": "Threshold"}), `operator ""`},
		"unknown key":        {call("/v2/monitors", map[string]any{"nome": "m"}), `unknown field "nome"`},
		"unknown call":       {call("/v2/teapots", map[string]any{}), "404: no such call"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, tt.err, tt.want)
		}
	}
	other, err := axiom.NewClient(axiom.SetNoEnv(), axiom.SetURL("http://axiom.test"), axiom.SetToken("xaat-other"),
		axiom.SetNoRetry(), axiom.SetNoTracing())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Options(axiom.SetClient(clientOf(fake))); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Datasets.List(context.Background()); !errors.Is(err, axiom.ErrUnauthorized) {
		t.Errorf("another token: %v", err)
	}
}

func first[T any](_ T, err error) error { return err }
