package api

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// diagnosisInput bounds what is diagnosed; -1 is no bound.
type diagnosisInput struct {
	RunPath
	Step  int64 `query:"step" default:"-1" minimum:"-1" doc:"This step alone, second by second"`
	First int64 `query:"from" default:"-1" minimum:"-1" doc:"The first step that is looked at"`
	Last  int64 `query:"to" default:"-1" minimum:"-1" doc:"The last step that is looked at"`
}

func (in *diagnosisInput) asked() DiagnosisQuery {
	bound := func(n int64) *rollout.Step {
		if n < 0 {
			return nil
		}
		step := rollout.Step(n)
		return &step
	}
	return DiagnosisQuery{Step: bound(in.Step), First: bound(in.First), Last: bound(in.Last)}
}

func (s *Server) diagnose(ctx context.Context, in *diagnosisInput) (any, error) {
	asked := in.asked()
	if asked.First != nil && asked.Last != nil && *asked.First > *asked.Last {
		return nil, rollout.Refuse(rollout.Invalid, "no step lies from %d to %d", in.First, in.Last)
	}
	if !asked.Whole() {
		return s.analyse(ctx, in.Run, asked)
	}
	mark, err := s.accountMark(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	made, err := s.diagnoses.Of(ctx, in.Run, func(d cache.Made[diagnosed]) bool {
		return d.Value.of == mark && cache.Younger[diagnosed](diagnosisAge)(d)
	}, s.diagnoseWhole(in.Run))
	return made.value, err
}

// diagnosed is a diagnosis with the account that it is of.
type diagnosed struct {
	of    accountMark
	value any
}

// accountMark changes whenever a run's account does.
type accountMark struct {
	counts     steprecord.BufferCounts
	launched   int64
	claimed    rollout.Step
	next       rollout.Step
	version    rollout.PolicyVersion
	generation rollout.TrainerGeneration
}

const (
	diagnosisAge     = 3 * time.Second // what the account does not show, such as engines, may change too
	diagnosisTimeout = time.Minute
)

// analyse makes a diagnosis when there is a place for one more.
func (s *Server) analyse(ctx context.Context, run rollout.RunName, asked DiagnosisQuery) (any, error) {
	leave, refused := s.gates.enter(ctx, "analyses", run)
	if refused != nil {
		return nil, refused
	}
	defer leave()
	return s.deps.Diagnose(ctx, run, asked)
}

func (s *Server) diagnoseWhole(run rollout.RunName) func(context.Context) (diagnosed, error) {
	return func(ctx context.Context) (made diagnosed, err error) {
		if made.of, err = s.accountMark(ctx, run); err == nil {
			made.value, err = s.analyse(ctx, run, DiagnosisQuery{})
		}
		return made, err
	}
}

func (s *Server) accountMark(ctx context.Context, run rollout.RunName) (accountMark, error) {
	account, err := s.deps.Store.Account(ctx, run)
	return accountMark{account.Counts, account.Launched, account.ClaimedTo, account.NextStep, account.Version,
		account.Generation}, err
}

// shownAge is how long a watched run's page shows a diagnosis of the same step.
const shownAge = 20 * time.Second

// diagnosisPatience is how long the status of a deployment waits for diagnoses that are not made yet.
const diagnosisPatience = 200 * time.Millisecond

// latestReport is the diagnosis that a run's page shows, of no severity where there is none yet.
func (s *Server) latestReport(ctx context.Context, status runstatus.RunStatus) diagnosis.Report {
	value, _ := s.LatestDiagnosis(ctx, status, diagnosisPatience)
	report, _ := value.(diagnosis.Report)
	return report
}

// LatestDiagnosis is the diagnosis that a run's page shows. If the newest is not done when patience ends, it is that of
// the step before. nil: the first is being made, or err says why it failed.
func (s *Server) LatestDiagnosis(ctx context.Context, status runstatus.RunStatus, patience time.Duration) (any, error) {
	run := status.Spec.Name
	made, err := s.diagnoses.Latest(ctx, run, func(d cache.Made[diagnosed]) bool {
		return d.Value.of.next == status.NextStep && (d.Err == nil && status.State.Over() || time.Since(d.At) < shownAge)
	}, patience, s.diagnoseWhole(run))
	return made.value, err
}

// DiagnosisQuery asks for a diagnosis of the whole run, of the steps from First to Last, or of one step second by
// second. A nil field is not asked for.
type DiagnosisQuery struct{ Step, First, Last *rollout.Step }

// Whole reports whether it is the run as it is now.
func (q DiagnosisQuery) Whole() bool { return q == DiagnosisQuery{} }
