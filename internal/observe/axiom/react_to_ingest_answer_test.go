package axiom

import (
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/telemetry"
)

var now = time.Unix(1_800_000_000, 0)

// TestReact has every answer that Axiom, or what stands before it, is known to give.
func TestReact(t *testing.T) {
	t.Parallel()
	type want struct {
		act   action
		pause time.Duration
		state telemetry.SinkState
	}
	wait := func(d time.Duration) retryTime { return retryTime{after: d} }
	for _, tt := range []struct {
		name   string
		give   answer
		events int
		try    int
		want   want
	}{
		{"taken", answer{status: 200, counted: true, ingested: 5}, 5, 0, want{accounted, 0, "ok"}},
		{"partly refused", answer{status: 200, counted: true, ingested: 3, failed: 2}, 5, 0, want{accounted, 0, "ok"}},
		{"all refused", answer{status: 200, counted: true, failed: 5}, 5, 0, want{accounted, 0, "ok"}},
		{"not all accounted for", answer{status: 200, counted: true, ingested: 4}, 10, 0,
			want{again, time.Second, "retrying"}},
		{"never all accounted for", answer{status: 200, counted: true, ingested: 4}, 10, 2, want{split, 0, "ok"}},
		{"more than was sent", answer{status: 200, counted: true, ingested: 11}, 10, 2, want{split, 0, "ok"}},
		{"one, not accounted for", answer{status: 200, counted: true}, 1, 7, want{again, time.Minute, "retrying"}},
		{"one, never accounted for", answer{status: 200, counted: true}, 1, 8, want{refused, 0, "ok"}},
		{"a page of somebody else", answer{status: 200, message: "a page of HTML"}, 5, 0,
			want{park, time.Minute, "degraded"}},
		{"broken off", readAnswer(200, nil, []byte(`{"ingested": 5, "fai`)), 5, 0, want{again, time.Second, "retrying"}},
		{"broken off before it began", readAnswer(200, nil, nil), 5, 1, want{again, 2 * time.Second, "retrying"}},
		{"always broken off", readAnswer(200, nil, []byte(`{`)), 5, 8, want{park, time.Minute, "degraded"}},
		{"JSON of somebody else", readAnswer(200, nil, []byte(`{"status": "ok"}`)), 5, 0,
			want{park, time.Minute, "degraded"}},

		{"rate limit", answer{status: 429, wait: wait(90 * time.Second)}, 5, 4, want{again, 90 * time.Second, "limited"}},
		{"rate limit that has passed", answer{status: 429, wait: retryTime{at: now.Add(-time.Hour)}}, 5, 0,
			want{again, time.Second, "limited"}},
		{"rate limit that is always over in a second", answer{status: 429, wait: wait(time.Second)}, 5, 6,
			want{again, 64 * time.Second, "limited"}},
		{"rate limit of which nothing is said", answer{status: 429}, 5, 3, want{again, 8 * time.Second, "limited"}},
		{"the same for an hour", answer{status: 429}, 5, 30, want{again, 5 * time.Minute, "limited"}},
		{"quota until next month", answer{status: 430, wait: retryTime{at: now.Add(700 * time.Hour)}}, 5, 0,
			want{again, 5 * time.Minute, "limited"}},
		{"quota of which nothing is said", answer{status: 430}, 5, 0, want{again, time.Second, "limited"}},

		{"too large", answer{status: 413}, 5, 0, want{split, 0, "ok"}},
		{"too large alone", answer{status: 413}, 1, 0, want{refused, 0, "ok"}},
		{"bad", answer{status: 400, message: "cannot parse"}, 2, 0, want{sample, 0, "ok"}},
		{"bad alone", answer{status: 400, message: "cannot parse"}, 1, 0, want{refused, 0, "ok"}},
		{"unprocessable", answer{status: 422}, 2, 0, want{sample, 0, "ok"}},
		{"field limit", answer{status: 400, message: "dataset exceeds the limit of 256 fields"}, 5, 0,
			want{park, time.Minute, "parked"}},
		{"one field too long", answer{status: 400, message: "field \"x\" exceeds the maximum of 1048576 bytes"}, 5, 0,
			want{sample, 0, "ok"}},

		{"token expired", answer{status: 401}, 5, 0, want{park, time.Minute, "degraded"}},
		{"token may not", answer{status: 403}, 5, 0, want{park, time.Minute, "degraded"}},
		{"no such dataset", answer{status: 404}, 5, 9, want{park, time.Minute, "degraded"}},
		{"a redirect", answer{status: 302}, 5, 0, want{park, time.Minute, "degraded"}},
		{"wrong method", answer{status: 405}, 5, 0, want{park, time.Minute, "degraded"}},
		{"a proxy that wants to know who", answer{status: 407}, 5, 0, want{park, time.Minute, "degraded"}},

		{"server error", answer{status: 500}, 5, 2, want{again, 4 * time.Second, "retrying"}},
		{"too slow for it", answer{status: 408}, 5, 0, want{again, time.Second, "retrying"}},
		{"gateway", answer{status: 502}, 5, 20, want{again, time.Minute, "retrying"}},
		{"no answer, for long", answer{failure: errors.New("connection refused")}, 5, 1000,
			want{again, time.Minute, "retrying"}},
		{"a certificate of nobody", answer{failure: x509.UnknownAuthorityError{}}, 5, 0,
			want{again, time.Second, "degraded"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := react(tt.give, tt.events, tt.try, now, 1)
			if (want{got.act, got.pause, got.state}) != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got.state != telemetry.SinkOK && got.reason == "" {
				t.Error("not well, and no reason")
			}
			if got.state.NeedsAction() && got.advice == "" {
				t.Error("somebody must act, and is not told how")
			}
		})
	}
}

// TestFieldLimit tells a dataset that is full from an event that is wrong, which are answered with the same status.
func TestFieldLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"field limit exceeded":                                     true,
		"Dataset field limit of 256 reached":                       true,
		"dataset has reached the maximum number of fields (256)":   true,
		"ingest would exceed the maximum of 256 fields":            true,
		"too many fields in dataset":                               true,
		"column limit exceeded":                                    true,
		"too many columns":                                         true,
		"number of fields exceeds 1024":                            true,
		"field 'state' exceeds 1MB":                                false,
		"field name longer than 200 bytes":                         false,
		"request size limit exceeded":                              false,
		"cannot parse event 3: invalid character 'x' in a string":  false,
		"_time: timestamp field is not in a supported format":      false,
		"the value of column x has another type than in the chart": false,
	} {
		if got := fieldLimit(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestRetryTime reads when a limit ends from every shape of headers.
func TestRetryTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		header http.Header
		want   time.Duration
	}{
		{"none", 429, http.Header{}, 0},
		{"Axiom's, whole", 429, http.Header{"X-Ratelimit-Scope": {"user"}, "X-Ratelimit-Limit": {"10"},
			"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1800000060"}}, time.Minute},
		{"without a scope", 429, http.Header{"X-Ratelimit-Reset": {"1800000060"}}, time.Minute},
		{"in the past", 429, http.Header{"X-Ratelimit-Reset": {"1700000000"}}, 0},
		{"in milliseconds", 429, http.Header{"X-Ratelimit-Reset": {"1800000060000"}}, time.Minute},
		{"as seconds from now", 429, http.Header{"X-Ratelimit-Reset": {"60"}}, time.Minute},
		{"nonsense", 429, http.Header{"X-Ratelimit-Reset": {"soon"}, "Retry-After": {"later"}}, 0},
		{"Retry-After", 429, http.Header{"Retry-After": {"60"}, "X-Ratelimit-Reset": {"1800000300"}}, time.Minute},
		{"Retry-After as a date", 429, http.Header{"Retry-After": {now.Add(time.Minute).UTC().Format(http.TimeFormat)}},
			time.Minute},
		{"Retry-After, negative", 429, http.Header{"Retry-After": {"-5"}, "X-Ratelimit-Reset": {"1800000060"}}, time.Minute},
		{"quota", 430, http.Header{"X-Ingestlimit-Reset": {"1800000060"}, "X-Ratelimit-Reset": {"1800000300"}}, time.Minute},
		{"rate, with the month's quota beside", 429, http.Header{"X-Ingestlimit-Reset": {"1801000000"},
			"X-Ratelimit-Reset": {"1800000060"}}, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := readRetryTime(tt.status, tt.header).pause(now); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestReadAnswer reads what Axiom and others write.
func TestReadAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind, body string
		status           int
		counted          bool
		message          string
	}{
		{"an account", "application/json", `{"ingested":1,"failed":0}`, 200, true, ""},
		{"an account without a type", "", `{"ingested":1}`, 200, true, ""},
		{"a success that is none", "text/html", "<html>login</html>", 200, false, "a page of HTML"},
		{"JSON of somebody else", "application/json", `{"ok":true}`, 200, false, `{"ok":true}`},
		{"a refusal", "application/json", `{"message":"forbidden"}`, 403, false, "forbidden"},
		{"a refusal in another word", "application/json", `{"code":403,"error":"no"}`, 403, false, "no"},
		{"text", "text/plain", "slow\ndown\n", 429, false, "slow down"},
		{"nothing", "", "", 503, false, "service unavailable"},
		{"nothing, for Axiom's own status", "", "", 430, false, "status 430"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := readAnswer(tt.status, http.Header{"Content-Type": {tt.kind}}, []byte(tt.body))
			if got.counted != tt.counted || got.message != tt.message {
				t.Errorf("got %+v", got)
			}
		})
	}
}
