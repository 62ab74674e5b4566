package buffer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// InItsPlace is the mirror of a run whose workflow is gone: whatever that said comes late.
const InItsPlace = -1

// SaveStatus keeps the workflow's mirror of itself, numbered as for SetLimits: a late call cannot bring back an earlier
// one. A status that is over ends the granting of new steps. facts tell what changed, and are told once, also by a call
// that comes late.
func (s *Store) SaveStatus(ctx context.Context, status runstatus.RunStatus, mirror int64,
	facts ...telemetry.Event) error {
	return s.saveStatus(ctx, status, mirror, flag(status.State.Over()), facts)
}

// SaveEnd is SaveStatus for a run that its workflow has ended. It changes nothing if Redis came back older since the
// run looked. The repair of the account saves the status then, for an ended run's account is not checked.
func (s *Store) SaveEnd(ctx context.Context, status runstatus.RunStatus, mirror int64,
	facts ...telemetry.Event) error {
	const ifCompared = 2
	return s.saveStatus(ctx, status, mirror, ifCompared, facts)
}

func (s *Store) saveStatus(ctx context.Context, status runstatus.RunStatus, mirror int64, over int,
	facts []telemetry.Event) error {
	text, err := json.Marshal(status)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "status of run %s: %v", status.Spec.Name, err)
	}
	told, err := encodeFacts(facts)
	if err != nil {
		return err
	}
	args := append([]any{text, over, mirror}, told...)
	r, err := s.eval(ctx, statusScript, status.Spec.Name, args...)
	if err != nil {
		return fmt.Errorf("save status: %w", err)
	}
	switch {
	case r.int(1) == 0:
		return nil
	case status.State.Over():
		return s.note(ctx, status)
	case r.int(2) == 1: // it was taken for lost
		return s.unnote(ctx, status.Spec.Name)
	}
	return nil
}

// note records that a run is over, so that Active skips it. A run that was revived before the record was written is
// looked at again: otherwise a second loss of it would go unnoticed.
func (s *Store) note(ctx context.Context, status runstatus.RunStatus) error {
	run := status.Spec.Name
	if err := s.runs.End(ctx, run, cmp.Or(status.EndedAt, s.now())); err != nil {
		return trouble("note the end of a run", err)
	}
	over, err := s.rdb.HGet(ctx, s.key(run, "run"), "over").Result()
	if err != nil && err != redis.Nil {
		return trouble("note the end of a run", err)
	}
	if over != "0" {
		return nil
	}
	return s.unnote(ctx, run)
}

func (s *Store) unnote(ctx context.Context, run rollout.RunName) error {
	return trouble("note that a run goes on", s.runs.Revive(ctx, run))
}

// Status is the mirror as it was saved last; a run that was only opened is starting.
func (s *Store) Status(ctx context.Context, run rollout.RunName) (runstatus.RunStatus, error) {
	fields, err := s.rdb.HMGet(ctx, s.key(run, "run"), "status", "spec").Result()
	if err != nil {
		return runstatus.RunStatus{}, trouble("read status", err)
	}
	return statusOf(run, reply(fields))
}

// Revive lets a lost run go on; its workflow is to say how it goes on.
func (s *Store) Revive(ctx context.Context, run rollout.RunName) error {
	if err := s.do(ctx, "revive run", reviveScript, run); err != nil {
		return err
	}
	return s.unnote(ctx, run)
}

func statusOf(run rollout.RunName, fields reply) (runstatus.RunStatus, error) {
	var status runstatus.RunStatus
	if fields.str(1) == "" {
		return status, noSuchRun(run)
	}
	if fields.str(0) == "" {
		status.State = runstatus.RunStarting
		if err := json.Unmarshal([]byte(fields.str(1)), &status.Spec); err != nil {
			return status, fmt.Errorf("spec of run %s: %w", run, err)
		}
		return status, nil
	}
	if err := json.Unmarshal([]byte(fields.str(0)), &status); err != nil {
		return status, fmt.Errorf("status of run %s: %w", run, err)
	}
	return status, nil
}
