package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// TestAGameThatIsGoneSaysWhy, when, and how it ended, over the API.
func TestAGameThatIsGoneSaysWhy(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "", nil)
	buffer, rdb := s.store(), redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	s.open(buffer, "demo")
	group := rollout.GroupRef{Run: "demo", Seq: 0}
	if err := buffer.Discard(t.Context(), group, "too_few_games"); err != nil {
		t.Fatal(err)
	}
	events := store.New(rdb, "millrace", store.Limits{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	events.Emit(telemetry.Event{At: at, Run: "demo", Key: "a", Body: telemetry.EpisodeFailed{
		Ref: rollout.EpisodeRef{GroupRef: group, Sample: 1}, Code: "timeout", Failure: "no answer", Attempt: 3, Final: true}})
	events.Emit(telemetry.Event{At: at, Run: "demo", Key: "b", Body: telemetry.EpisodeFailed{
		Ref: rollout.EpisodeRef{GroupRef: group, Sample: 2}, Code: "cancelled", Failure: "canceled",
		Attempt: 1, Final: true}})
	events.Emit(telemetry.Event{At: at.Add(time.Second), Run: "demo", Key: "c",
		Body: telemetry.GroupDropped{Code: "too_few_games"}})
	events.Close()
	const dropped = "group 0 was given up: too_few_games at 2026-01-02T03:04:06Z"
	for path, want := range map[string]string{
		"0/0": "no game of demo/0/0 is kept: " + dropped,
		"0/1": "no game of demo/0/1 is kept: " + dropped + "; it failed with timeout, attempt 3: no answer " +
			"(2026-01-02T03:04:05Z)",
		"0/2": "no game of demo/0/2 is kept: " + dropped + "; it was cancelled, because its group needed it no more " +
			"(2026-01-02T03:04:05Z)",
		"7/0": "no game of demo/7/0 is kept: group 7 was never begun; the run has launched those up to 0",
	} {
		got := s.want(http.StatusNotFound, "GET", "/v1/runs/demo/games/"+path, "", "")
		var p struct{ Type, Detail string }
		if json.Unmarshal([]byte(got.body), &p) != nil || p.Detail != want || !strings.HasSuffix(p.Type, "no-such-game") {
			t.Errorf("%s: %s\nwant %s", path, got.body, want)
		}
	}
}
