package axiomtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
)

// post sends a body to a path of a fake, and returns the answer's status and body.
func post(t *testing.T, fake *axiomtest.Server, path, typ, body string) (int, string) {
	t.Helper()
	status, text, err := try(fake, path, typ, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

func try(fake *axiomtest.Server, path, typ, body string) (int, string, error) {
	r := httptest.NewRequest(http.MethodPost, "http://axiom.test"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer xaat-test")
	r.Header.Set("Content-Type", typ)
	resp, err := fake.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

const (
	ingestPath = "/v1/datasets/d/ingest"
	ndjson     = "application/x-ndjson"
)

// TestEventsAreTakenOneByOne: what is wrong with one event is in a successful answer, under its time alone.
func TestEventsAreTakenOneByOne(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Limits: axiomtest.Limits{Fields: 6, FieldBytes: 10, NameBytes: 12}}
	status, body := post(t, fake, ingestPath, ndjson, strings.Join([]string{
		`{"_time":"2026-01-02T03:04:05.000000001Z","a":1,"b":{"c":2,"d":{"e":3}}}`, // _time, _sysTime, a, b.c, b.d.e
		`{"_time":"2026-01-02T03:04:05.000000002Z","a":"much too long"}`,
		`{"_time":"2026-01-02T03:04:05.000000003Z","f":1,"g":1}`,
		`{"_time":"2026-01-02T03:04:05.000000004Z","_source":1}`,
		`{"_time":"2026-01-02T03:04:05.000000005Z","a_name_too_long":1}`,
		`{"_time":"tomorrow","a":1}`,
		`{"a":1}`,
		`{"_time":"2026-01-02T03:04:05.000000006Z","h":1}`,
	}, "\n"))
	var got struct {
		Ingested, Failed int
		Failures         []struct{ Timestamp, Error string }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || got.Ingested != 4 || got.Failed != 4 {
		t.Fatalf("%d %s", status, body)
	}
	for i, want := range []string{
		"2026-01-02T03:04:05.000000003Z adding 2 fields to dataset d (f, g) would exceed its limit of 6 fields",
		"2026-01-02T03:04:05.000000005Z field name of 15 bytes",
		"field _time: tomorrow is no time",
		"2026-01-02T03:04:05.000000006Z adding 1 fields",
	} {
		if f := got.Failures[i]; !strings.Contains(f.Timestamp+" "+f.Error, want) {
			t.Errorf("failure %d is %+v, want %s", i, f, want)
		}
	}
	events := fake.Events()
	if events[0]["b.d.e"] != 3.0 || events[1]["a"] != "<invalid string: too long>" || events[2]["_user_source"] != 1.0 {
		t.Errorf("%v", events)
	}
}

// TestMapFieldCountsOnce: a declared map field is one field, whatever it holds.
func TestMapFieldCountsOnce(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Limits: axiomtest.Limits{Fields: 4}}
	metrics := `{"kind":"x","metrics":{"a":1,"b":2,"c":3,"d.e":4}}`
	if _, body := post(t, fake, ingestPath, ndjson, metrics); !strings.Contains(body, `"failed":1`) {
		t.Errorf("undeclared: %s", body)
	}
	if status, body := post(t, fake, "/v2/datasets/d/mapfields", "application/json", `{"name":"metrics"}`); status != 200 {
		t.Fatal(body)
	}
	if _, body := post(t, fake, ingestPath, ndjson, metrics); !strings.Contains(body, `"ingested":1`) {
		t.Errorf("declared: %s", body)
	}
	if got := fmt.Sprint(fake.Events()[0]["metrics"]); got != "map[a:1 b:2 c:3 d.e:4]" {
		t.Errorf("kept %s", got)
	}
}

// TestBodiesThatAreRefused are refused as a whole: nothing of them is kept.
func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		typ, body string
		change    func(*http.Request)
		status    int
	}{
		"broken JSON":           {ndjson, `{"a":1}` + "\n" + `{"a":`, nil, 400},
		"an event is no object": {"application/json", `[1]`, nil, 400},
		"one event, no list":    {"application/json", `{"a":1}`, nil, 400},
		"no type":               {"", `{"a":1}`, nil, 400},
		"another type":          {"text/html", `{"a":1}`, nil, 400},
		"unknown coding":        {ndjson, `{"a":1}`, func(r *http.Request) { r.Header.Set("Content-Encoding", "br") }, 400},
		"not what it says":      {ndjson, `{"a":1}`, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 400},
		"no token":              {ndjson, `{"a":1}`, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"no token of Axiom's":   {ndjson, `{"a":1}`, func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, 401},
		"personal, without organization": {ndjson, `{"a":1}`,
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer xapt-1") }, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := &axiomtest.Server{}
			r := httptest.NewRequest(http.MethodPost, "http://axiom.test"+ingestPath, strings.NewReader(tt.body))
			r.Header.Set("Authorization", "Bearer xaat-test")
			r.Header.Set("Content-Type", tt.typ)
			if tt.change != nil {
				tt.change(r)
			}
			resp, err := fake.RoundTrip(r)
			if err != nil || resp.StatusCode != tt.status || len(fake.Events()) > 0 {
				t.Errorf("%v, %v, %d events", resp, err, len(fake.Events()))
			}
		})
	}
}

// TestSwitchedFaults meets each of the faults that a person can switch on, and goes on when it is off.
func TestSwitchedFaults(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("{\"a\":1}\n", 20)
	met := map[string]string{ // what the answer says
		"refuse": "refused", "reset-mid-body": "refused", "lost-answer": "502", "short-answer": `"ingested":10`, "500": "500",
		"503-text": "503 service unavailable", "429": "429", "429-no-scope": "429", "429-text": "429 slow down", "430": "430",
		"413": "413", "400": "400", "401": "401", "403": "403", "404": "404", "poison": `"failed":2`,
		"field-limit": `"failed":20`,
	}
	for _, f := range (&axiomtest.Server{}).Faults() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			if f.Name == "hang" || f.Name == "slow" {
				t.Skip("they take their time")
			}
			fake := &axiomtest.Server{}
			if err := fake.Switch(f.Name, true); err != nil {
				t.Fatal(err)
			}
			status, body, err := try(fake, ingestPath, ndjson, lines)
			got := fmt.Sprintf("%d %s", status, body)
			if errors.Is(err, axiomtest.ErrRefused) {
				got = "refused"
			}
			if met[f.Name] == "" || !strings.Contains(got, met[f.Name]) {
				t.Errorf("%s, %v; want %q", got, err, met[f.Name])
			}
			if err := fake.Switch(f.Name, false); err != nil {
				t.Fatal(err)
			}
			if _, body := post(t, fake, ingestPath, ndjson, lines); !strings.Contains(body, `"ingested":20`) {
				t.Errorf("switched off: %s", body)
			}
			for _, g := range fake.Faults() {
				if (g.Hits > 0) != (g.Name == f.Name) || g.On {
					t.Errorf("%+v", g)
				}
			}
		})
	}
	if err := (&axiomtest.Server{}).Switch("nothing", true); err == nil {
		t.Error("an unknown fault was switched on")
	}
}
