package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/control/evaluation"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/supply"
	store "github.com/millrace/millrace/internal/store/eventstore"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// hostile is what a model may write: markup, a terminal's commands, another direction, an end of what is around it.
const hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31mred\x1b[0m \u202eevil\u202c \u2066x " +
	"</pre></main>\"'`{{.}}"

// service is an API with one run, as the page sees it.
type service struct {
	unscaled bool // no worker has a configuration of scaling
	gone     bool // no game is kept
	mu       sync.Mutex
	run      string // its name
	token    string // of an operator; empty: nobody needs one
	paused   bool
	steps    []steprecord.StepRecord
	text     string // of every completion
	reason   string // of every state and failure
	changes  []string
	stream   func(http.ResponseWriter) // answers /v1/stream
	sessions sessions
}

func newService(steps int) *service {
	s := &service{run: "demo", text: hostile, reason: hostile, sessions: sessions{by: map[string]access.Hash{}}}
	at := began
	for i := range steps {
		sec := 10 + float64(i%7)
		r := steprecord.StepRecord{Step: rollout.Step(i), Done: true, Generation: 1,
			Trainer: steprecord.StepReport{WallSec: sec, Phases: map[steprecord.Phase]float64{"train": 10, "wait": float64(i % 7)}}}
		v := &r.Service
		v.FirstAskedAt, v.GrantedAt = at, at.Add(time.Duration(i%7)*time.Second)
		at = at.Add(time.Duration(sec * float64(time.Second)))
		v.CompletedAt, v.Version, v.Depth, v.GroupsPerStep = at, rollout.PolicyVersion(i), 2, 2
		v.AtClaim = steprecord.BufferCounts{Ready: 2, InFlight: 1, Queued: 1}
		for g := range 2 {
			v.Groups = append(v.Groups, steprecord.GroupView{Seq: rollout.GroupSeq(2*i + g), MinVersion: v.Version,
				Times: rollout.GroupTimes{LaunchedAt: v.FirstAskedAt.Add(-5 * time.Second), StartedAt: v.FirstAskedAt.Add(-4 *
					time.Second), ReadyAt: v.FirstAskedAt.Add(time.Duration(g) * time.Second)},
				EpisodeSec: []float64{4, 5}, ModelSec: []float64{2, 3}, QueueSec: []float64{1, 1}, EnvSec: []float64{0.5, 0.5},
				Phases: []int{5, 6}, Rewards: []float64{0.25, 0.5 + float64(i%10)/100}})
		}
		s.steps = append(s.steps, r)
	}
	return s
}

func (s *service) Grant(token access.Hash) (access.Grant, string) {
	switch {
	case s.token == "":
		return access.Everything("local"), ""
	case token == access.HashOf(s.token):
		return access.Grant{Name: "op", Role: access.Operator}, ""
	case token == access.HashOf("reader-"+s.token):
		return access.Grant{Name: "eye", Role: access.Reader, Runs: []string{"*"}}, ""
	}
	return access.Grant{}, "no such token"
}

// sessions are in memory, for as many servers as a test has.
type sessions struct {
	mu   sync.Mutex
	by   map[string]access.Hash
	down error
}

func (s *sessions) Begin(_ context.Context, token [32]byte, _ time.Duration) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("session-%d", len(s.by))
	s.by[id] = token
	return id, s.down
}

func (s *sessions) Token(_ context.Context, id string) ([32]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, found := s.by[id]
	return token, found && s.down == nil, s.down
}

func (s *sessions) End(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, id)
	return s.down
}

func (s *service) LatestDiagnosis(context.Context, runstatus.RunStatus, time.Duration) (any, error) {
	return s.document("/v1/runs/demo/diagnosis"), nil
}

func (s *service) status() runstatus.RunStatus {
	state := runstatus.RunRunning
	if s.paused {
		state = runstatus.RunPaused
	}
	return runstatus.RunStatus{ID: "demo", State: state, StartedAt: began, NextStep: rollout.Step(len(s.steps)),
		PolicyVersion: 7, Spec: runspec.Spec{Name: "demo", Steps: 20_000, Buffer: runspec.BufferSpec{Depth: 2,
			GroupsPerStep: 2, MaxStaleness: 4}}}
}

func (s *service) engine() enginestate.Engine {
	return enginestate.Engine{ID: "engine-0", URL: "http://127.0.0.1:1", State: enginestate.EngineReady, Since: began,
		MaxInFlight: 8, Load: enginestate.EngineLoad{At: began, Running: 3, OutputTPS: 1234, InputTPS: 56789, KVUsage: 0.5},
		Adapters: []string{"demo-v7", "demo-v6"},
		Uses: []enginestate.EngineUse{{Run: "demo", Model: "demo-v7", Games: 31, Requests: 17, Queued: 5},
			{Run: "other", Model: "demo-v7", Games: 2, Requests: 1}},
		Reason: s.reason, Slow: s.reason}
}

func (s *service) turn() gamelist.Turn {
	prompt := s.text
	word := "<b>" + "\x1b]0;title\x07"
	return gamelist.Turn{TurnView: gamelist.TurnView{Turn: 0, Phase: "S1901M", Agent: "FRANCE", PolicyVersion: 7,
		Engine: "engine-0", FinishReason: "stop", PromptTokens: 3, Tokens: 2, MeanLogprob: -0.7, Text: s.text,
		Timing: &rollout.Timing{QueueSec: 0.25, ExecSec: 3.5, Attempts: 3, Failed: []rollout.RequestFailure{
			{Engine: rollout.EngineID(hostile), Code: rollout.CodeTimeout, Sec: 1.5}}}},
		Turns: 2, Prompt: &prompt, PromptTokenIDs: []int32{1, 2, 3},
		Sampled: []gamelist.Token{{ID: 9, Logprob: -0.01, Text: &word}, {ID: 10, Logprob: -6}}}
}

func (s *service) document(path string) any {
	reward := 0.375
	switch path {
	case "/v1/status":
		return api.DeploymentStatus{At: began, Redis: api.Answers{Answers: true}, Problems: []api.Trouble{},
			Workers: &api.WorkerTotals{Alive: 1, Slots: 8, Games: 3}, Engines: &api.EngineTotals{OutputTPS: 1234, InputTPS: 56789}}
	case "/v1/runs":
		return map[string]any{"runs": []runstatus.RunStatus{s.status()}}
	case "/v1/engines":
		return map[string]any{"engines": []enginestate.Engine{s.engine()}}
	case "/v1/engines/engine-0":
		return s.engine()
	case "/v1/fleet":
		if s.unscaled {
			return nil
		}
		return s.fleet()
	case "/v1/runs/demo":
		return api.RunView{RunStatus: s.status(), Buffer: steprecord.BufferCounts{Ready: 2, InFlight: 1, Queued: 1},
			Attempts: runstatus.AttemptCounts{Failed: 3, ByCode: []runstatus.FailedAttempts{{Code: "timeout", Attempts: 3,
				Last: s.reason, LastAt: began, LastGame: "demo/1/0"}}},
			Waits: []api.Wait{{What: "batch", Owner: "trainer, step 9", Detail: "1 ready group of 2 needed"}}}
	case "/v1/runs/demo/waits":
		return map[string]any{"waits": []api.Wait{}}
	case "/v1/runs/demo/evaluations":
		before := rollout.PolicyVersion(3)
		return api.EvaluationList{Notes: []string{"not evaluated: " + s.reason}, Evaluations: []evaluation.Result{{Run: "demo", State: runstatus.RunCompleted, Version: 7,
			Against: s.reason, Games: 64, Asked: 64, Score: &stat.Interval{Mean: 0.875, Half: 0.05}, Before: &before,
			Pairs: 64, Difference: &stat.Interval{Mean: 0.25, Half: 0.125}}}}
	case "/v1/runs/demo/diagnosis":
		return diagnosis.Report{Run: "demo", Verdict: diagnosis.VerdictProblem, Summary: "The trainer waits 3 s of 13 s.",
			WhatIfs: []diagnosis.WhatIf{{Change: "engines 1 -> 2", Outcome: diagnosis.Helps, StepSec: 10,
				Command: "millrace engine add URL"}}}
	case "/v1/runs/demo/games":
		return gamelist.Page{Total: 1, Games: []gamelist.Game{{Name: "demo/1/0", Group: 1, State: gamelist.Finished,
			GroupState: "trained", Kept: !s.gone, Reward: &reward, Rewards: map[string]float64{"FRANCE": reward}, Attempts: 2, Code: "timeout",
			Failure:  s.reason,
			Failures: []gamelist.FailedAttempt{{Attempt: 1, At: began, Code: "timeout", Failure: s.reason}}}}}
	case "/v1/runs/demo/games/1/0":
		if s.gone {
			return nil
		}
		return savedGame()
	case "/v1/runs/demo/games/1/0/turns":
		return gamelist.Turns{Game: "demo/1/0", Agents: []gamelist.AgentView{{Agent: "FRANCE", Turns: 1, Reward: reward,
			Advantage: 1.25}}, Turns: []gamelist.TurnView{s.turn().TurnView}}
	case "/v1/runs/demo/games/1/0/turns/0":
		return s.turn()
	}
	var step int
	if _, err := fmt.Sscanf(path, "/v1/runs/demo/steps/%d", &step); err == nil && step < len(s.steps) {
		return s.steps[step]
	}
	return nil
}

func (s *service) fleet() supply.View {
	return supply.View{At: began.Add(time.Minute), Provider: "process", Wanted: 3, Started: 4, Why: "demo waits; " + s.reason,
		Settings: scaling.Config{Policy: scaling.Starvation, Min: 1, Max: 8, Price: 2, Budget: 20}, Set: []string{"max"},
		Actual: scaling.Engines{Starting: 1, Ready: 2}, Next: began.Add(2 * time.Minute), Cost: 1.25, Trouble: s.reason,
		TroubleSince: began, Engines: []supply.Engine{{ID: "engine-0", State: enginestate.EngineReady, Since: began,
			Instance: provider.Instance{URL: "http://127.0.0.1:2", State: enginestate.EngineRunning}},
			{ID: "scaled-2", State: enginestate.EngineStarting, Since: began, Instance: provider.Instance{State: enginestate.EngineOrdered,
				Reason: s.reason}}},
		Sample: scaling.Sample{Runs: []scaling.Run{{Name: "demo", C: 10, P: 30, Engines: 1, MaxEngines: 6}}},
		Decisions: []scaling.Decision{{No: 1, At: began, From: 1, To: 3, Code: scaling.Buys, Reason: s.reason, Cost: 0.5,
			Predicted: []scaling.Effect{{Run: "demo", BeforeSec: 30, PredictedSec: 11}}}},
		Measured: map[int]scaling.Measured{1: {Decision: 1, Text: s.reason, Effects: []scaling.Effect{{Run: "demo",
			BeforeSec: 30, MeasuredSec: 12}}}}}
}

// savedGame is one phase with a hostile order.
func savedGame() *diplomacy.SavedGame {
	m := diplomacy.Standard()
	game := diplomacy.NewSavedGame(m, "demo/1/0")
	game.Finish(diplomacy.NewGame(m))
	game.Phases[0].Orders = map[string][]string{"FRANCE": {"A PAR - BUR", hostile}}
	game.Phases[0].Results = map[string][]string{"A PAR": {"bounce"}}
	return game
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, inside := access.HolderOf(r.Context())
	if !inside {
		token = access.HashOf(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}
	if _, refusal := s.Grant(token); refusal != "" {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"detail":"the token is none of the server's"}`)
		return
	}
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		s.changes = append(s.changes, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
		s.paused = strings.Contains(string(body), `"paused":true`)
		_, _ = io.WriteString(w, "{}")
		return
	}
	if r.URL.Path == "/v1/stream" && s.stream != nil {
		s.stream(w)
		return
	}
	document := s.document(strings.ReplaceAll(r.URL.Path, s.run, "demo"))
	if document == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"there is nothing at `+r.URL.Path+`"}`)
		return
	}
	text, err := json.Marshal(document)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(bytes.ReplaceAll(text, []byte("demo"), []byte(s.run)))
}

func (s *service) AllSteps(_ context.Context, _ rollout.RunName, from rollout.Step, limit int) ([]steprecord.StepRecord,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(from) >= len(s.steps) {
		return nil, nil
	}
	return s.steps[from:min(len(s.steps), int(from)+limit)], nil
}

func (s *service) Facts(context.Context, rollout.RunName, string, int, ...string) ([]store.Record, error) {
	return nil, nil
}

func (s *service) Samples(context.Context, rollout.RunName, string, int, ...string) ([]store.Record, string, bool,
	error) {
	return nil, "", false, nil
}

// workflows are addresses of a UI that is another server's.
type workflows struct{}

func (workflows) Run(run rollout.RunName) string { return "http://ui.test/run/" + string(run) }
func (workflows) Group(ref rollout.GroupRef) string {
	return fmt.Sprintf("http://ui.test/group/%s/%d", ref.Run, ref.Seq)
}
func (workflows) Fleet() string { return "http://ui.test/fleet" }

// site serves the page of a service until the test ends.
func site(t testing.TB, s *service) *httptest.Server {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	page, err := New(Deps{API: s, Deployment: "rl-production", Handler: s, Sessions: &s.sessions, Workflows: workflows{}, Log: log,
		History: runhistory.New(s, s, panics.Watch{Log: log})})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	return server
}

// get is the body of a page that must be there.
func get(t testing.TB, server *httptest.Server, path string) string {
	t.Helper()
	resp, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, resp.StatusCode, body.String())
	}
	return body.String()
}
