package program

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEndings: what becomes of a game by how its process ended, or by what its webhook answered.
func TestEndings(t *testing.T) {
	t.Parallel()
	const traceback = "Traceback:\n  line 7\nValueError: no move\n"
	long := strings.Repeat("é", 400) + " the end"
	for _, tt := range []struct {
		name   string
		got    Ending
		how    How
		reason string
	}{
		{"a reward", exit{last: `{"reward": 0.5}`}.ending(), Played, ""},
		{"rewards, and more", exit{last: ` {"rewards": {"a": 1, "b": 0}, "why": []} `}.ending(), Played, ""},
		{"a reward of 0", exit{last: `{"reward": 0}`}.ending(), Played, ""},
		{"no line", exit{stderr: traceback}.ending(), Failed,
			`the last line of stdout is neither {"reward": 0.5} nor {"rewards": {"AGENT": 0.5}}: ` + strings.TrimSpace(traceback)},
		{"another object", exit{last: `{"score": 1}`}.ending(), Failed, "the last line of stdout is " + wanted},
		{"a text for a number", exit{last: `{"reward": "1"}`}.ending(), Failed, "the last line of stdout is " + wanted},
		{"an exit code beats a reward", exit{code: 3, how: "exit status 3", last: `{"reward": 1}`, stderr: traceback}.ending(),
			Failed, "exit status 3: Traceback:\n  line 7\nValueError: no move"},
		{"killed", exit{code: -1, how: "signal: killed", leased: 2}.ending(), Left, "signal: killed"},
		{"killed each time", exit{code: -1, how: "signal: killed", leased: 3}.ending(), Failed, "signal: killed"},
		{"a long reason", exit{code: 1, how: "exit status 1", stderr: long}.ending(), Failed,
			"exit status 1: ..." + strings.Repeat("é", 137) + " the end"},

		{"200", answered(200, []byte(`{"reward": -1.5, "truncated": true}`)), Played, ""},
		{"200 without a reward", answered(200, []byte(`<html>`)), Failed,
			"the webhook answers 200 with " + wanted + ": <html>"},
		{"202", answered(202, nil), Taken, ""},
		{"another 2xx", answered(204, nil), Failed, "the webhook answers 204"},
		{"somewhere else", answered(302, nil), Failed, "the webhook answers 302"},
		{"refused", answered(422, []byte("no such map\n")), Failed, "the webhook answers 422: no such map"},
		{"broken", answered(500, []byte("boom")), Failed, "the webhook answers 500: boom"},
		{"too slow for its proxy", answered(504, nil), Failed, "the webhook answers 504"},
		{"full", answered(429, nil), Left, "the webhook answers 429"},
		{"down behind its proxy", answered(502, nil), Left, "the webhook answers 502"},
		{"starting", answered(503, nil), Left, "the webhook answers 503"},
	} {
		if tt.got.How != tt.how || tt.got.Reason != tt.reason || len(tt.got.Reason) > mostReason {
			t.Errorf("%s: %+v, %d bytes", tt.name, tt.got, len(tt.got.Reason))
		}
	}
}

// TestPace: after which endings the next game is leased how much later.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		ends   []How
		waits  []time.Duration // after each
		toldOf []bool
	}{
		{"played", []How{Played, Taken, Over}, []time.Duration{0, 0, 0}, []bool{false, false, false}},
		{"gone", []How{Left, Left, Left, Left, Left, Left, Left},
			[]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second,
				30 * time.Second}, []bool{true, false, false, false, false, false, false}},
		{"back, and gone again", []How{Left, Left, Played, Left},
			[]time.Duration{time.Second, 2 * time.Second, 0, time.Second}, []bool{true, false, false, true}},
		{"failing", append(slices.Repeat([]How{Failed}, 12), Played, Failed),
			append(make([]time.Duration, 10), 200*time.Millisecond, 400*time.Millisecond, 0, 0), make([]bool, 14)},
	} {
		var p pace
		now := time.Unix(1e9, 0)
		for i, how := range tt.ends {
			told := p.note(now, how)
			wait := max(0, p.next.Sub(now))
			if wait != tt.waits[i] || told != tt.toldOf[i] {
				t.Errorf("%s, ending %d: told %t, wait %s", tt.name, i, told, wait)
			}
			if how == Left && p.note(now.Add(wait/2), Left) || max(0, p.next.Sub(now)) != wait {
				t.Errorf("%s, ending %d: another game of the same outage counts", tt.name, i)
			}
			now = now.Add(wait)
		}
	}
}
