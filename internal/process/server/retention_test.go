package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// What will be deleted says when: a run that is over, where the service has a retention.
func TestARunSaysWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "retention: 30d\n", nil)
	store := s.store()
	spec := s.open(store, "over")
	s.open(store, "going")
	ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := runstatus.RunStatus{Spec: spec, State: runstatus.RunCompleted, StartedAt: ended, EndedAt: ended}
	if err := store.SaveStatus(t.Context(), status, 0); err != nil {
		t.Fatal(err)
	}
	const when = `"deletes_at":"2026-02-01T03:04:05Z"`
	for path, want := range map[string]int{"/v1/runs": 1, "/v1/runs/over": 1, "/v1/runs/going": 0} {
		if got := s.want(http.StatusOK, "GET", path, "", "").body; strings.Count(got, when) != want ||
			strings.Count(got, "deletes_at") != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}
