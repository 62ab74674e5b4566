package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/diagnosis/runratings"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/stat"
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
	file, err := specfile.Read("run", []byte(`{"name":"demo","model":"m","steps":9,"group":{"zero_variance":"drop"},
		"adapters":{"path_prefix":"/"},"evaluate":{"every":6,"against":["random"]},"environment":{"kind":"tictactoe","opponent":"random"}}`))
	s.Spec, s.Spec.Name, s.State = file.Spec, run, runstatus.RunRunning
	if strings.Contains(string(run), "-eval-v9") {
		s.State = runstatus.RunCompleted
		s.Spec.Evaluation = runspec.Evaluation{Run: "demo", Version: 9, Against: "random"}
	}
	s.PolicyVersion, s.Policies = 9, []runstatus.Policy{{Version: 9, Path: "/v9"}}
	return s, err
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
		Results: steprecord.Results{Orders: map[rollout.Order]int{order: 7}, Reward: stat.OneGroup([]float64{1})}}}}}}, nil
}

// sixEvaluated is the same, with an evaluation of version 6, whose adapter the run has forgotten.
type sixEvaluated struct{ playedRuns }

func (*sixEvaluated) RunsPage(context.Context, rollout.RunName, int, func(rollout.RunName) bool) (
	[]runstatus.RunStatus, rollout.RunName, error) {
	return []runstatus.RunStatus{{Spec: runspec.Spec{Name: "demo-eval-v6-random@2",
		Evaluation: runspec.Evaluation{Run: "demo", Version: 6, Against: "random"}}}}, "", nil
}

// TestWhatWasEvaluatedIsNotMissing: nobody is told why a version is not evaluated that is.
func TestWhatWasEvaluatedIsNotMissing(t *testing.T) {
	t.Parallel()
	var list api.EvaluationList
	askRunsOf(t, &sixEvaluated{}, http.MethodGet, "demo/evaluations", "", http.StatusOK, &list)
	if len(list.Evaluations) != 1 || len(list.Notes) > 0 {
		t.Errorf("%d evaluations, notes %q", len(list.Evaluations), list.Notes)
	}
}

// askRuns asks a server that has the played runs.
func askRuns(t *testing.T, method, path, body string, want int, into any) {
	t.Helper()
	askRunsOf(t, &playedRuns{}, method, path, body, want, into)
}

func askRunsOf(t *testing.T, store api.Store, method, path, body string, want int, into any) {
	t.Helper()
	server, err := newServer(api.Config{Listen: "127.0.0.1:0"}, api.Deps{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	asked := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/v1/runs/"+path, strings.NewReader(body))
	asked.Header.Set("Content-Type", "application/json")
	server.Handler().ServeHTTP(answer, asked)
	if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil || answer.Code != want {
		t.Fatal(answer.Code, answer.Body, err)
	}
}

// TestCurveOfAnEvaluation: its points are the version that it evaluates, not its own version 0.
func TestCurveOfAnEvaluation(t *testing.T) {
	t.Parallel()
	var curve runcurve.Curve
	askRuns(t, http.MethodGet, "demo-eval-v9-random/curve", "", http.StatusOK, &curve)
	if len(curve.Points) != 1 || curve.Points[0].First != 9 || curve.Points[0].Last != 9 {
		t.Errorf("%+v", curve.Points)
	}
}

// TestAskedOtherwise: a question that was asked with other games is answered with what to do, and with which run it is.
func TestAskedOtherwise(t *testing.T) {
	t.Parallel()
	var refused struct{ Detail string }
	askRuns(t, http.MethodPost, "demo/evaluations", `{"version":9,"against":"random","games":64}`, http.StatusConflict,
		&refused)
	if !strings.Contains(refused.Detail, "run demo-eval-v9-random is completed; to ask anew, delete it first") {
		t.Errorf("%q", refused.Detail)
	}
}

// TestRatingsOfARun: games of the run and of its evaluations count, those of other runs do not.
func TestRatingsOfARun(t *testing.T) {
	t.Parallel()
	get := func(what string, into any) { askRuns(t, http.MethodGet, "demo/"+what, "", http.StatusOK, into) }
	var list api.EvaluationList
	if get("evaluations", &list); len(list.Evaluations) != 1 || list.Evaluations[0].Version != 9 {
		t.Errorf("evaluations %+v, want that of version 9", list.Evaluations)
	}
	if len(list.Notes) != 1 || !strings.Contains(list.Notes[0], "version 6 is not evaluated: run demo does not know") {
		t.Errorf("notes %q, want why version 6 is not evaluated", list.Notes)
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
