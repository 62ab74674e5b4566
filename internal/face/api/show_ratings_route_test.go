package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/runratings"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// playedRuns is a run, an evaluation of it and another run, each with one completed step.
type playedRuns struct{ scripted }

func (*playedRuns) Account(context.Context, rollout.RunName) (buffer.Account, error) {
	return buffer.Account{NextStep: 1}, nil
}

func (*playedRuns) Status(_ context.Context, run rollout.RunName) (s runstatus.RunStatus, _ error) {
	s.Spec = runspec.Spec{Name: run, Group: runspec.GroupSpec{ZeroVariance: runspec.DropZeroVariance}}
	return s, nil
}

func (*playedRuns) RunsPage(context.Context, rollout.RunName, int, func(rollout.RunName) bool) (
	[]runstatus.RunStatus, rollout.RunName, error) {
	return []runstatus.RunStatus{{Spec: runspec.Spec{Name: "demo"}}, {Spec: runspec.Spec{Name: "other"}},
		{Spec: runspec.Spec{Name: "demo-eval", Evaluation: runspec.Evaluation{Run: "demo", Version: 9}}}}, "", nil
}

func (*playedRuns) AllSteps(_ context.Context, run rollout.RunName, _ rollout.Step, _ int) (
	[]steprecord.StepRecord, error) {
	order := map[rollout.RunName]rollout.Order{"demo": "v1@X > random@O", "demo-eval": "v9@X > random@O",
		"other": "v5@X > random@O"}[run]
	return []steprecord.StepRecord{{Done: true, Service: steprecord.ServiceView{Results: []steprecord.VersionResults{{
		Results: steprecord.Results{Orders: map[rollout.Order]int{order: 7}}}}}}}, nil
}

// TestRatingsOfARun: games of the run and of its evaluations count, those of other runs do not.
func TestRatingsOfARun(t *testing.T) {
	t.Parallel()
	server, err := newServer(api.Config{Listen: "127.0.0.1:0"}, api.Deps{Store: &playedRuns{}})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	asked := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/runs/demo/ratings", nil)
	server.Handler().ServeHTTP(answer, asked)
	var r runratings.Ratings
	if err := json.Unmarshal(answer.Body.Bytes(), &r); err != nil || answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body, err)
	}
	names := ""
	for _, p := range r.Players {
		names += p.Name + " "
	}
	if r.Games != 14 || r.Anchor != "random" || names != "v1 v9 random " ||
		!strings.Contains(strings.Join(r.Notes, " "), "dropped for equal rewards") {
		t.Errorf("%d games, anchor %s, players %s, notes %q", r.Games, r.Anchor, names, r.Notes)
	}
}
