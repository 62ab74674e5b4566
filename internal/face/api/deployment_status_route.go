package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Answers is whether a part of the service answers.
type Answers struct {
	Answers bool   `json:"answers"`
	Error   string `json:"error,omitempty"`
}

// WorkerTotals is the workers, counted.
type WorkerTotals struct {
	Alive  int `json:"alive"`
	Absent int `json:"absent" doc:"Not heard of for a while"`
	Slots  int `json:"slots" doc:"Games that those alive may play at a time"`
	Games  int `json:"games" doc:"That they play"`
}

// EngineTotals is the engines, counted.
type EngineTotals struct {
	ByState   map[enginestate.EngineState]int `json:"by_state"`
	InputTPS  float64                         `json:"input_tokens_per_s"`
	OutputTPS float64                         `json:"output_tokens_per_s"`
	// Scaled is set when the fleet is scaled.
	Scaled *ScaledTotals `json:"scaled,omitempty" doc:"How many engines scaling wants, and why"`
}

// ScaledTotals sums up what scaling wants.
type ScaledTotals struct {
	Wanted   int    `json:"wanted"`
	Starting int    `json:"starting" doc:"That were asked for, and do not serve yet"`
	Why      string `json:"why"`
}

// RunTotals is a run, in short.
type RunTotals struct {
	Run           rollout.RunName       `json:"run"`
	State         runstatus.RunState    `json:"state"`
	NextStep      rollout.Step          `json:"next_step"`
	Steps         rollout.Step          `json:"steps"`
	PolicyVersion rollout.PolicyVersion `json:"policy_version"`
	Ready         int64                 `json:"ready_groups"`
	InFlight      int64                 `json:"in_flight_groups"`
	Queued        int64                 `json:"queued_groups"`
	Level         diagnosis.Severity    `json:"level,omitempty" doc:"How it goes: ok, note, slow or stuck; absent: not known yet"`
	Brief         string                `json:"brief,omitempty" doc:"Why, with the share of the time that it costs, and its price where scaling.price is set"`
}

// DeploymentStatus is a deployment at a glance.
type DeploymentStatus struct {
	At       time.Time              `json:"at"`
	Name     string                 `json:"name,omitempty" doc:"The deployment's, if its configuration gives it one"`
	Version  string                 `json:"version" doc:"Of the server that answers"`
	Problems []Trouble              `json:"problems" doc:"What is wrong, and what to do, the gravest first"`
	Redis    Answers                `json:"redis"`
	Temporal *Answers               `json:"temporal,omitempty"`
	Workers  *WorkerTotals          `json:"workers,omitempty"`
	Engines  *EngineTotals          `json:"engines,omitempty"`
	Runs     []RunTotals            `json:"runs" doc:"Those that go on"`
	Sinks    []telemetry.SinkStatus `json:"sinks" doc:"Where events are delivered to; none: not configured"`
}

func (s *Server) showStatus(ctx context.Context, _ *struct{}) (DeploymentStatus, error) {
	out := DeploymentStatus{At: s.deps.Now(), Name: s.cfg.Name, Version: s.cfg.Version, Problems: []Trouble{},
		Runs: []RunTotals{}, Sinks: []telemetry.SinkStatus{}, Redis: Answers{Answers: true}}
	everything := callOf(ctx).grant.CoversAll()
	err := s.readStatus(ctx, &out, everything)
	var outages []Trouble
	since := s.down("Redis", err != nil)
	if err != nil {
		s.deps.Log.WarnContext(ctx, "look at the deployment", "error", err)
		what, advice := "Redis does not answer", "start it, or check redis.url; the server's log has the error"
		var refusal *rollout.Refusal
		if errors.As(err, &refusal) && refusal.Code == rollout.Unavailable && refusal.Text != what {
			what, advice = refusal.Text, "do what its words ask for, such as room on its disk"
		}
		out.Redis = Answers{Error: strings.TrimPrefix(what, "Redis ")}
		outages = append(outages, Trouble{Level: diagnosis.SeverityStuck, Since: since,
			What:   what + ": nothing is played, claimed or recorded",
			Advice: advice + ". Nothing is to be done about runs: they go on by themselves"})
	}
	out.Temporal = &Answers{Answers: s.deps.Temporal()}
	if since := s.down("Temporal", !out.Temporal.Answers); !out.Temporal.Answers {
		outages = append(outages, Trouble{Level: diagnosis.SeverityStuck, Since: since,
			What:   "Temporal does not answer: claims and records go on, runs cannot be started or changed",
			Advice: "start it, or check temporal.address"})
	}
	if everything {
		out.Sinks = append(out.Sinks, s.sinks(ctx)...)
	}
	if out.Redis.Answers { // else how the delivery goes is not known
		for _, sink := range out.Sinks {
			outages = append(outages, sinkTroubles(sink)...)
		}
	}
	out.Problems = append(out.Problems, aged(out.At, outages)...)
	gravestFirst(out.Problems)
	return out, nil
}

// down is since when a part does not answer, as far as anybody has looked; zero while it does.
func (s *Server) down(part string, is bool) (since time.Time) {
	if !is {
		s.downSince.Delete(part)
		return since
	}
	found, _ := s.downSince.LoadOrStore(part, s.deps.Now())
	since, _ = found.(time.Time)
	return since
}

// readStatus fills in what Redis knows.
func (s *Server) readStatus(ctx context.Context, out *DeploymentStatus, everything bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	active, err := s.deps.Store.Active(ctx)
	if err != nil {
		return err
	}
	workers, err := s.deps.Workers.List(ctx)
	if err != nil {
		return err
	}
	engines, err := s.deps.Fleet.List(ctx)
	if err != nil {
		return err
	}
	var ofEngines []Trouble
	if everything {
		out.Workers, out.Engines = countWorkers(workers), countEngines(engines)
		view, scaled, err := s.deps.Fleet.Scaling(ctx)
		if err != nil {
			return err
		}
		ofEngines = aged(out.At, engineTroubles(engines))
		out.Problems = append(out.Problems, s.storageTroubles()...)
		if scaled && view.EndedAt.IsZero() {
			out.Problems = append(out.Problems, aged(out.At, scalingTroubles(view))...)
			out.Engines.Scaled = &ScaledTotals{Wanted: view.Wanted, Starting: view.Actual.Starting, Why: view.Why}
		}
	}
	looking, enough := context.WithTimeout(ctx, diagnosisPatience)
	defer enough()
	shared := map[runstatus.AlarmCode]bool{} // "no workers" is listed once
	for _, run := range s.visible(ctx, active) {
		name := run.Spec.Name
		counts, err := s.deps.Store.Counts(ctx, name)
		if rollout.Refused(err, rollout.NoSuchRun) {
			continue // it was deleted since the runs were listed; Redis is well
		}
		if err != nil {
			return err
		}
		one := RunTotals{Run: name, State: run.State, NextStep: run.NextStep,
			Steps: rollout.Step(run.Spec.Steps), PolicyVersion: run.PolicyVersion, Ready: counts.Ready,
			InFlight: counts.InFlight, Queued: counts.Queued}
		_, alarms, err := s.situation(ctx, run)
		if err != nil && !rollout.Refused(err, rollout.NoSuchRun) {
			return err
		}
		for _, a := range alarms {
			of := name
			if a.Code == runstatus.AlarmNoEngine && len(ofEngines) > 0 {
				for i := range ofEngines { // they are why
					ofEngines[i].Level = diagnosis.SeverityStuck
				}
				continue
			}
			if a.Code == runstatus.AlarmNoWorker || a.Code == runstatus.AlarmNoEngine {
				if shared[a.Code] {
					continue
				}
				shared[a.Code], of = true, ""
			}
			out.Problems = append(out.Problems, Trouble{Level: diagnosis.SeverityStuck, What: a.Text, Since: a.Since,
				Advice: a.Advice, Run: of})
		}
		report := s.latestReport(looking, run)
		one.Level, one.Brief = report.Severity, report.Brief
		if len(alarms) > 0 { // whether it was diagnosed since or not
			one.Level, one.Brief = diagnosis.SeverityStuck, diagnosis.CauseName(alarms[0].Code).Words()
		}
		out.Runs = append(out.Runs, one)
		if len(alarms) == 0 && report.Urgent() {
			out.Problems = append(out.Problems, Trouble{Level: report.Severity, Run: name, What: report.Brief,
				Advice: "see what helps: millrace diagnose " + string(name.Plain())})
		}
	}
	out.Problems = append(out.Problems, ofEngines...)
	ended, err := s.badEnds(ctx)
	out.Problems = append(out.Problems, aged(out.At, ended)...)
	return err
}

func countWorkers(workers []enginestate.Worker) *WorkerTotals {
	t := &WorkerTotals{}
	for _, w := range workers {
		switch {
		case w.Serves:
		case w.State == enginestate.WorkerAlive:
			t.Alive++
			t.Slots += w.Slots
			t.Games += w.Games
		case w.State == enginestate.WorkerAbsent:
			t.Absent++
		}
	}
	return t
}

func countEngines(engines []enginestate.Engine) *EngineTotals {
	t := &EngineTotals{ByState: map[enginestate.EngineState]int{}}
	for _, e := range engines {
		t.ByState[e.State]++
		t.InputTPS += e.Load.InputTPS
		t.OutputTPS += e.Load.OutputTPS
	}
	return t
}

// sinks is where events are delivered to; that they cannot be asked is a problem of Redis.
func (s *Server) sinks(ctx context.Context) []telemetry.SinkStatus {
	found, err := s.deps.Sinks(ctx)
	if err != nil {
		s.deps.Log.WarnContext(ctx, "look at the sinks", "error", err)
	}
	return found
}

// troubledSinks lists the sinks with a problem. Callers who may not see the deployment get neither their addresses nor
// their errors.
func troubledSinks(sinks []telemetry.SinkStatus, everything bool) []telemetry.SinkStatus {
	var troubled []telemetry.SinkStatus
	for _, sink := range sinks {
		if len(sinkTroubles(sink)) == 0 {
			continue
		}
		if !everything {
			sink = telemetry.SinkStatus{Sink: sink.Sink, State: sink.State, Since: sink.Since, UpdatedAt: sink.UpdatedAt,
				Reason: "events are not delivered as they should be", Advice: "ask an operator of the deployment"}
		}
		troubled = append(troubled, sink)
	}
	return troubled
}
