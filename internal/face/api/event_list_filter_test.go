package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
)

// TestEventsAreFiltered: by kind, code, game and age, in lists, which say where to read on, and in streams.
func TestEventsAreFiltered(t *testing.T) {
	t.Parallel()
	h := &history{more: make(chan struct{})}
	h.add("buffer_level", `{"counts":{}}`)
	h.add("rollout_error", `{"ref":{"run":"demo","seq":47,"sample":0},"code":"timeout"}`)
	h.add("rollout_error", `{"ref":{"run":"demo","seq":47,"sample":1},"code":"panic"}`)
	h.add("group_dropped", `{"group_seq":47,"code":"timeout"}`)
	h.add("group_ready", `{"group":{"seq":48}}`)
	h.add("run_changed", `{"change":"start"}`)
	for i := range 700 {
		h.add("dispatch_sample", fmt.Sprintf(`{"window_s":%d}`, i))
	}
	h.add("group_ready", `null`) // could not be read
	s := bubbled(t, &scripted{answer: notReady}, h)
	for _, tt := range []struct {
		query string
		ids   string
		next  string
	}{
		{"kind=rollout_error", "2 3", "707"},
		{"kind=rollout_error,group_dropped", "2 3 4", "707"},
		{"kind=rollout_error&code=panic", "3", "707"},
		{"code=timeout", "2 4", "707"},
		{"game=47", "2 3 4", "707"},
		{"game=47/0", "2 4", "707"},
		{"game=48", "5", "707"},
		{"facts=true", "2 3 4 5 6 707", "707"},
		{"facts=true&limit=2", "2 3", "3"},
		{"facts=true&limit=2&after=3", "4 5", "5"},
		{"kind=nothing&after=707", "", "707"},
	} {
		w := ask(t.Context(), s, "GET", "/v1/runs/demo/events?"+tt.query)
		var list struct {
			Events []api.Event
			Next   string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err, w.Body)
		}
		ids := []string{}
		for _, e := range list.Events {
			ids = append(ids, e.ID)
		}
		if got := strings.Join(ids, " "); got != tt.ids || list.Next != tt.next {
			t.Errorf("%s: %s, next %s; want %s, next %s", tt.query, got, list.Next, tt.ids, tt.next)
		}
	}
	for _, query := range []string{"game=x", "game=4/y", "since=yesterday", "since=-3s"} {
		w := ask(t.Context(), s, "GET", "/v1/runs/demo/events?"+query)
		if w.Code != 422 || !strings.Contains(w.Body.String(), string(rollout.Invalid)) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
