package crashtest

import (
	"strings"
	"testing"
	"time"
)

func TestBoughtLedgerSeesAnEngineThatWasBoughtTwice(t *testing.T) {
	t.Parallel()
	at := func(sec int) time.Time { return time.Unix(int64(sec), 0) }
	one := boughtProcess{pid: 10, began: "1", id: "scaled-1", port: 500}
	two := boughtProcess{pid: 11, began: "2", id: "scaled-2", port: 501}
	again := boughtProcess{pid: 10, began: "7", id: "scaled-1", port: 502} // another process with the number of the first

	tests := []struct {
		name    string
		looks   [][]boughtProcess
		seconds float64
		most    int
		want    string
	}{
		{"two engines", [][]boughtProcess{{one}, {one, two}, {two}, {}}, 4, 2, ""},
		{"replaced under its id", [][]boughtProcess{{one}, {}, {again}}, 1, 1, "scaled-1 was bought twice"},
		{"two at once", [][]boughtProcess{{one, again}, {one, again}}, 2, 2, "scaled-1 was bought twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l boughtLedger
			for i, now := range tt.looks {
				l.look(at(i), now)
			}
			if l.most != tt.most || int(l.seconds) != int(tt.seconds) {
				t.Errorf("%d at once and %.1f s, want %d and %.1f", l.most, l.seconds, tt.most, tt.seconds)
			}
			if len(l.violations) > 1 {
				t.Errorf("told more than once: %q", l.violations)
			}
			if got := strings.Join(l.violations, "\n"); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("violations %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPlausibleCost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cost float64
		ok   bool
	}{
		{"what ran", 1, true}, {"a little less", 0.85, true}, {"nothing", 0, false}, {"twice", 2, false},
	} {
		if got := plausibleCost(tt.cost, 3600, 1); (got == "") != tt.ok {
			t.Errorf("%s: $%g for an hour at $1: %q", tt.name, tt.cost, got)
		}
	}
}
