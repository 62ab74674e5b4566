package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// StepPath is one step of one run.
type StepPath struct {
	RunPath
	Step rollout.Step `path:"step" minimum:"0" doc:"The optimizer step, from 0"`
}

// StepInput is the trainer's record of a step.
type StepInput struct {
	Generation rollout.TrainerGeneration    `json:"generation,omitempty" minimum:"0" doc:"As with the claim"`
	WallSec    float64                      `json:"wall_seconds,omitempty" minimum:"0" doc:"From asking for the batch to the end of the step; the sum of the phases, if not given"`
	Phases     map[steprecord.Phase]float64 `json:"phases,omitempty" nullable:"true" doc:"Seconds by phase: wait, load, ref_logprobs, train, publish, checkpoint. The trainer is sequential: they add up to wall_seconds at most, and the rest counts as other"`
	Metrics    map[string]float64           `json:"metrics,omitempty" nullable:"true" doc:"The trainer's own figures, such as loss"`
}

func (s *Server) registerRecord() {
	record := s.operation("complete-step")
	record.DefaultStatus = http.StatusCreated
	record.Responses["200"] = &huma.Response{Description: "The same record was there already",
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemaOf[steprecord.StepRecord](s)}}}
	huma.Register(s.api, record, s.completeStep)
}

type recordBody struct {
	Status int
	Body   steprecord.StepRecord
}

func (s *Server) completeStep(ctx context.Context, in *struct {
	StepPath
	Body StepInput
}) (*recordBody, error) {
	report := steprecord.StepReport{WallSec: in.Body.WallSec, Phases: in.Body.Phases, Metrics: in.Body.Metrics}
	if report.WallSec == 0 {
		// In a fixed order: the same record sent twice must be the same to the last bit.
		for _, phase := range slices.Sorted(maps.Keys(report.Phases)) {
			report.WallSec += report.Phases[phase]
		}
	}
	if err := checkReport(report); err != nil {
		return nil, err
	}
	if err := s.checkMetrics(report.Metrics); err != nil {
		return nil, s.fail(ctx, "record step", err)
	}
	s.acquaint(ctx, in.Run)
	record, isNew, err := s.deps.Store.Complete(ctx, in.Run, in.Step, in.Body.Generation, report,
		s.fleetOf(ctx, in.Run, in.Step))
	if err != nil {
		return nil, s.fail(ctx, "record step", s.missed(ctx, in.Run, err))
	}
	if !s.witness(ctx, in.Run) {
		s.hint(in.Run)
	}
	s.waiters.wakeAll(in.Run)
	out := &recordBody{Status: http.StatusOK, Body: record}
	if isNew {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// phaseSlack is how far phases may add up to more than the wall time: clocks are read one after the other.
const phaseSlack = 0.05

// maxPhaseSec, a year, is beyond any phase of a step. A figure like 1e308 is a client's error, and would stay in the
// record for good.
const maxPhaseSec = 365 * 24 * 3600

// checkReport refuses figures that cannot be: a diagnosis built on them would be wrong without a sign of it.
func checkReport(report steprecord.StepReport) error {
	sum := 0.0
	for phase, sec := range report.Phases {
		if sec < 0 {
			return problem(rollout.Invalid,
				fmt.Sprintf("phases.%s: %g seconds; a phase cannot last less than nothing", phase, sec))
		}
		if sec > maxPhaseSec {
			return problem(rollout.Invalid,
				fmt.Sprintf("phases.%s: %g seconds is more than a year; phases are in seconds", phase, sec))
		}
		sum += sec
	}
	if report.WallSec > maxPhaseSec {
		return problem(rollout.Invalid, fmt.Sprintf("wall_seconds: %g seconds is more than a year", report.WallSec))
	}
	if sum > report.WallSec*(1+phaseSlack)+phaseSlack {
		return problem(rollout.Invalid, fmt.Sprintf("phases add up to %.3f seconds, more than wall_seconds %.3f: the wall "+
			"time runs from asking for the batch to the end of the step", sum, report.WallSec))
	}
	return nil
}

// fleetOf sums up the engines over the time in which the step's batch could be played: from the grant
// of the batch before it to its own.
func (s *Server) fleetOf(ctx context.Context, run rollout.RunName, step rollout.Step) steprecord.FleetView {
	granted := func(k rollout.Step) time.Time {
		record, err := s.deps.Store.Step(ctx, run, k)
		if err != nil {
			return time.Time{}
		}
		return record.Service.GrantedAt
	}
	to := granted(step)
	var from time.Time
	if step > 0 {
		from = granted(step - 1)
	} else if status, err := s.deps.Store.Status(ctx, run); err == nil {
		from = status.StartedAt
	}
	if from.IsZero() || to.IsZero() {
		return steprecord.FleetView{}
	}
	s.keepEngines(ctx, run, step, from, to)
	s.keepLateEngines(ctx, run, step)
	view, _ := s.fleetView(ctx, run, from, to)
	return view
}
