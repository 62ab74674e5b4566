package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
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

// playedRuns is a run, an evaluation of it, one of the run that had its name before, and another run, each with one
// completed step.
type playedRuns struct{ scripted }

func (*playedRuns) Account(context.Context, rollout.RunName) (buffer.Account, error) {
	return buffer.Account{NextStep: 1}, nil
}

func (*playedRuns) Status(_ context.Context, run rollout.RunName) (s runstatus.RunStatus, _ error) {
	s.Spec = runspec.Spec{Name: run, Group: runspec.GroupSpec{ZeroVariance: runspec.DropZeroVariance}}
	return s, nil
}

func (*playedRuns) RunsPage(_ context.Context, _ rollout.RunName, _ int, seen func(rollout.RunName) bool) (
	[]runstatus.RunStatus, rollout.RunName, error) {
	all := []runstatus.RunStatus{{Spec: runspec.Spec{Name: "demo"}}, {Spec: runspec.Spec{Name: "other"}},
		{Spec: runspec.Spec{Name: "demo-eval-v9-random", Evaluation: runspec.Evaluation{Run: "demo", Version: 9}}},
		{Spec: runspec.Spec{Name: "demo-eval-v4-random", Evaluation: runspec.Evaluation{Run: "demo@0", Version: 4}}}}
	return slices.DeleteFunc(all, func(r runstatus.RunStatus) bool { return !seen(r.Spec.Name) }), "", nil
}

func (*playedRuns) AllSteps(_ context.Context, run rollout.RunName, _ rollout.Step, _ int) (
	[]steprecord.StepRecord, error) {
	order := map[rollout.RunName]rollout.Order{"demo": "v1@X > random@O", "demo-eval-v9-random": "v9@X > random@O",
		"demo-eval-v4-random": "v4@X > random@O", "other": "v5@X > random@O"}[run]
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
	get := func(what string, into any) {
		t.Helper()
		answer := httptest.NewRecorder()
		asked := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/runs/demo/"+what, nil)
		server.Handler().ServeHTTP(answer, asked)
		if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil || answer.Code != http.StatusOK {
			t.Fatal(answer.Code, answer.Body, err)
		}
	}
	var list api.EvaluationList
	if get("evaluations", &list); len(list.Evaluations) != 1 || list.Evaluations[0].Version != 9 {
		t.Errorf("evaluations %+v, want that of version 9", list.Evaluations)
	}
	var r runratings.Ratings
	get("ratings", &r)
	names := ""
	for _, p := range r.Players {
		names += p.Name + " "
	}
	if r.Games != 14 || r.Anchor != "random" || names != "v1 v9 random " ||
		!strings.Contains(strings.Join(r.Notes, " "), "dropped for equal rewards") {
		t.Errorf("%d games, anchor %s, players %s, notes %q", r.Games, r.Anchor, names, r.Notes)
	}
}
