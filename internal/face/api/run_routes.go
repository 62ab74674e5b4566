package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// RunPath is the run that a call is about. It and its like are exported only because huma fills embedded structs by
// reflection.
type RunPath struct {
	Run rollout.RunName `path:"run" doc:"The run's name"`
}

// Resolve refuses what cannot name a run before it reaches keys and workflow ids.
func (p *RunPath) Resolve(huma.Context) []error {
	if err := p.Run.ValidateID(); err != nil {
		return []error{&huma.ErrorDetail{Location: "path.run", Message: err.Error()}}
	}
	return nil
}

// RunView is a run with what the buffer and the engines say of it now.
type RunView struct {
	runstatus.RunStatus
	Buffer steprecord.BufferCounts `json:"buffer"`
	// ReadyDepth is the number of ready groups, in steps' worth.
	ReadyDepth float64               `json:"ready_depth"`
	Fleet      *steprecord.FleetView `json:"fleet,omitempty" doc:"The engines over the last minute"`
	// Departures is how groups left, by the length of their games: whether what is lost is mostly long.
	Departures []steprecord.LengthCount `json:"departures" doc:"How groups left so far, and how many phases their games had"`
	Attempts   runstatus.AttemptCounts  `json:"attempts" doc:"How the attempts at its games have ended: finished, failed by code with the last error"`
	Alarms     []runstatus.Alarm        `json:"alarms" doc:"What keeps its games from being played: no worker, no engine, a model that no engine serves, attempts that all fail"`
	Waits      []Wait                   `json:"waits" doc:"Everything that waits, with its owner"`
	// Sinks is those to which events, also this run's, are not delivered as they should be.
	Sinks []telemetry.SinkStatus `json:"sinks,omitempty" doc:"Where its events are not delivered to, and why; left out while all is well"`
}

type startedBody struct {
	Status   int
	Location string `header:"Location"`
	Body     runstatus.RunStatus
}

func (s *Server) registerStart() {
	start := s.operation("start-run")
	start.DefaultStatus = http.StatusCreated
	start.SkipValidateBody = true // ReadSpec is stricter, and reads YAML.
	start.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/yaml": {Schema: specSchema()}, "application/json": {Schema: specSchema()},
	}}
	start.Responses["200"] = &huma.Response{Description: "The run was there already", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[runstatus.RunStatus](s)}}}
	huma.Register(s.api, start, s.startRun)
	onlyDocuments(start)
}

func (s *Server) startRun(ctx context.Context, in *struct{ RawBody []byte }) (*startedBody, error) {
	spec, err := s.deps.ReadSpec(slices.Clone(in.RawBody)) // huma uses the bytes again.
	if err != nil {
		return nil, specProblem(err)
	}
	return s.startSpec(ctx, spec)
}

func (s *Server) startSpec(ctx context.Context, spec runspec.Spec) (*startedBody, error) {
	var err error
	callOf(ctx).run = spec.Name
	if err := s.checkGames(spec); err != nil {
		return nil, s.fail(ctx, "start run", err)
	}
	if spec.Name, err = s.deps.Store.ID(ctx, spec.Name); err != nil {
		return nil, s.fail(ctx, "start run", err)
	}
	if err := s.checkRuns(ctx, spec); err != nil {
		return nil, s.fail(ctx, "start run", err)
	}
	status, created, err := s.deps.Control.Start(ctx, spec)
	if err != nil {
		return nil, s.fail(ctx, "start run", err)
	}
	changed(ctx, status)
	out := &startedBody{Status: http.StatusOK, Location: runsPath + string(spec.Name.Plain()), Body: s.shown(status)}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// RunList is a page of runs.
type RunList struct {
	Runs []runstatus.RunStatus `json:"runs"`
	Next rollout.RunName       `json:"next,omitempty" doc:"Where the next page begins; left out when there is none"`
}

func (s *Server) listRuns(ctx context.Context, in *struct {
	After  rollout.RunName `query:"after" maxLength:"80" doc:"Only those after this one: next of the page before"`
	Limit  int             `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"How many at most"`
	Active bool            `query:"active" doc:"Only those that go on"`
	All    bool            `query:"all" doc:"Evaluations, too, which are else listed with the runs that they are of"`
}) (RunList, error) {
	var next rollout.RunName
	var runs []runstatus.RunStatus
	var err error
	if in.Active {
		runs, err = s.deps.Store.Active(ctx)
	} else {
		runs, next, err = s.deps.Store.RunsPage(ctx, in.After, in.Limit, covered(ctx))
	}
	if !in.All && err == nil {
		runs, err = s.listedByThemselves(ctx, runs)
	}
	return RunList{s.visible(ctx, runs), next}, err
}

// listedByThemselves leaves out evaluations, but not those whose run was deleted: nothing else would show them.
func (s *Server) listedByThemselves(ctx context.Context, runs []runstatus.RunStatus) ([]runstatus.RunStatus, error) {
	gone := map[rollout.RunName]bool{}
	for i := range runs {
		gone[runs[i].Spec.Name] = false
	}
	gone[""] = true // is no evaluation
	for i := range runs {
		of := runs[i].Spec.Evaluation.Run
		if _, known := gone[of]; known {
			continue
		}
		_, err := s.deps.Store.Status(ctx, of)
		if gone[of] = rollout.Refused(err, rollout.NoSuchRun); err != nil && !gone[of] {
			return nil, err
		}
	}
	return slices.DeleteFunc(runs, func(run runstatus.RunStatus) bool { return !gone[run.Spec.Evaluation.Run] }), nil
}

// fleetWindow is how far back a run's view of its engines looks.
const fleetWindow = time.Minute

func (s *Server) showRun(ctx context.Context, in *RunPath) (RunView, error) {
	status, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return RunView{}, s.unlessItReturns(ctx, in.Run, err)
	}
	counts, err := s.deps.Store.Counts(ctx, in.Run)
	if err != nil {
		return RunView{}, err
	}
	departures, err := s.deps.Store.Departures(ctx, in.Run)
	if err != nil {
		return RunView{}, err
	}
	attempts, alarms, err := s.situation(ctx, status)
	if err != nil {
		return RunView{}, err
	}
	status.Policies = s.troubled(ctx, status.Policies)
	view := RunView{
		RunStatus: s.shown(status), Buffer: counts, Departures: append([]steprecord.LengthCount{}, departures...),
		Attempts: attempts, Alarms: alarms, Waits: s.waits(ctx, status, counts, alarms),
	}
	view.Sinks = troubledSinks(s.sinks(ctx), callOf(ctx).grant.CoversAll())
	if g := status.Spec.Buffer.GroupsPerStep; g > 0 {
		view.ReadyDepth = float64(counts.Ready) / float64(g)
	}
	now := s.deps.Now()
	if fleet, ok := s.fleetView(ctx, in.Run, now.Add(-fleetWindow), now); ok {
		view.Fleet = &fleet
	}
	return view, nil
}

// fleetView measures the engines over a window, if they are sampled. The figure is optional: its absence never fails a
// call.
func (s *Server) fleetView(ctx context.Context, run rollout.RunName, from, to time.Time) (steprecord.FleetView, bool) {
	if !from.Before(to) {
		return steprecord.FleetView{}, false
	}
	view, err := s.deps.FleetView(ctx, run, from, to)
	if err != nil {
		s.deps.Log.Warn("fleet view", "request_id", requestID(ctx), "run", run, "error", err)
		return steprecord.FleetView{}, false
	}
	return view, true
}

func (s *Server) changeRun(ctx context.Context, in *struct {
	RunPath
	RawBody []byte
}) (runstatus.RunStatus, error) {
	change, err := readChange(in.RawBody)
	if err != nil {
		return runstatus.RunStatus{}, err
	}
	before, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil && !rollout.Refused(err, rollout.NoSuchRun) { // else it is the run's to say
		return runstatus.RunStatus{}, err
	}
	if after, _ := change.Apply(before.Spec); after.Games() > before.Spec.Games() {
		if err := s.checkGames(after); err != nil {
			return runstatus.RunStatus{}, err
		}
	}
	status, err := s.deps.Control.Change(ctx, in.Run, change)
	return s.afterChange(ctx, status, err)
}

// afterChange records a change of a run for its audit, and wakes those who wait for the run.
func (s *Server) afterChange(ctx context.Context, status runstatus.RunStatus, err error) (runstatus.RunStatus, error) {
	if err != nil {
		return status, err
	}
	changed(ctx, status)
	s.waiters.wakeAll(status.Spec.Name)
	return s.shown(status), nil
}

func (s *Server) stopRun(ctx context.Context, in *struct {
	RunPath
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Kept with the run"`
	}
}) (runstatus.RunStatus, error) {
	reason := "stopped by an operator"
	if in.Body != nil && in.Body.Reason != "" {
		reason = in.Body.Reason
	}
	status, err := s.deps.Control.Stop(ctx, in.Run, reason)
	return s.afterChange(ctx, status, err)
}

type deletedRun struct {
	Run rollout.RunName `json:"run"`
	ID  rollout.RunName `json:"id" doc:"What the service called the run; a run that uses the name again has another one"`
}

func (s *Server) deleteRun(ctx context.Context, in *struct {
	RunPath
	Force bool `query:"force" doc:"Stop the run first if it goes on"`
}) (deletedRun, error) {
	status, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return deletedRun{}, err
	}
	if !status.State.Over() {
		if !in.Force {
			return deletedRun{}, problem(rollout.Conflict, fmt.Sprintf(
				"run %s is %s; stop it first, or delete it by force (--force)", in.Run.Plain(), status.State))
		}
		if _, err := s.deps.Control.Stop(ctx, in.Run, "deleted by an operator"); err != nil {
			return deletedRun{}, err
		}
	}
	if err := s.deps.Control.Delete(ctx, in.Run); err != nil {
		return deletedRun{}, err
	}
	s.deps.Log.Info("run deleted", "request_id", requestID(ctx), "run", in.Run)
	s.waiters.wakeAll(in.Run)
	return deletedRun{in.Run.Plain(), in.Run}, nil
}
