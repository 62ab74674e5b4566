package axiom

import (
	"errors"
	"testing"
	"time"

	client "github.com/axiomhq/axiom-go/axiom"
)

func TestReact(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	limited := func(in time.Duration) error {
		return client.LimitError{Limit: client.Limit{Reset: now.Add(in)}}
	}
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		give outcome
		try  int
		want reaction
	}{
		{"taken", outcome{events: 5, status: 200, ingested: 5}, 0, reaction{accounted, 0}},
		{"partly refused", outcome{events: 5, status: 200, ingested: 3, failed: 2}, 0, reaction{accounted, 0}},
		{"not all accounted for", outcome{events: 5, status: 200, ingested: 3}, 0, reaction{again, time.Second}},
		{"never all accounted for", outcome{events: 5, status: 200, ingested: 3}, 3, reaction{accounted, 0}},
		{"limit", outcome{events: 5, status: 429, err: limited(90 * time.Second)}, 4, reaction{again, 90 * time.Second}},
		{"limit that has passed", outcome{events: 5, status: 429, err: limited(-time.Hour)}, 0, reaction{again, time.Second}},
		{"quota until next month", outcome{events: 5, status: 430, err: limited(700 * time.Hour)}, 0,
			reaction{again, 5 * time.Minute}},
		{"limit without a time", outcome{events: 5, status: 429, err: broken}, 3, reaction{again, 8 * time.Second}},
		{"too large", outcome{events: 5, status: 413, err: broken}, 0, reaction{split, 0}},
		{"bad", outcome{events: 2, status: 400, err: broken}, 0, reaction{split, 0}},
		{"bad alone", outcome{events: 1, status: 400, err: broken}, 0, reaction{refused, 0}},
		{"token", outcome{events: 5, status: 401, err: broken}, 0, reaction{park, time.Minute}},
		{"no such dataset", outcome{events: 5, status: 404, err: broken}, 9, reaction{park, time.Minute}},
		{"server error", outcome{events: 5, status: 500, err: broken}, 2, reaction{again, 4 * time.Second}},
		{"no answer, for long", outcome{events: 5, err: broken}, 1000, reaction{again, time.Minute}},
		{"an answer nobody can read", outcome{events: 5, status: 200, err: broken}, 0, reaction{again, time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := react(tt.give, tt.try, now, 1); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
