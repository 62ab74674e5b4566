package buffer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Open makes the run known and records its limits. Opening it again with the same spec changes nothing, its limits
// included; another spec under the same name is a Conflict.
func (s *Store) Open(ctx context.Context, spec rollout.Spec) error {
	if err := spec.Name.Validate(); err != nil {
		return rollout.Refuse(rollout.Invalid, "%v", err)
	}
	if err := checkLimits(spec.Buffer, spec.Steps); err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "spec of run %s: %v", spec.Name, err)
	}
	args := append([]any{text}, limits(spec.Buffer, spec.Steps)...)
	r, err := s.eval(ctx, openScript, spec.Name, args...)
	if err != nil {
		return fmt.Errorf("open run: %w", err)
	}
	if !r.ok() {
		return rollout.Refuse(rollout.Conflict, "run %s exists with another spec; choose another name, or change the run with `millrace run set`", spec.Name)
	}
	// A crash before this line is repaired by the retry.
	if err := s.rdb.SAdd(ctx, s.index(), string(spec.Name)).Err(); err != nil {
		return trouble("open run", err)
	}
	return nil
}

// SetLimits changes depth, groups per step, staleness, bytes, order and length of a run. It takes effect with the next
// claim; a batch already granted is not touched, a ready group that is too stale now is dropped.
func (s *Store) SetLimits(ctx context.Context, run rollout.RunName, b rollout.BufferSpec, steps int) error {
	if err := checkLimits(b, steps); err != nil {
		return err
	}
	r, err := s.eval(ctx, limitsScript, run, limits(b, steps)...)
	if err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	s.swept(run, r.seqs(1))
	return nil
}

func checkLimits(b rollout.BufferSpec, steps int) error {
	switch {
	case b.GroupsPerStep < 1:
		return rollout.Refuse(rollout.Invalid, "buffer.groups_per_step is %d; a step needs at least one group", b.GroupsPerStep)
	case b.Depth < 0 || b.MaxStaleness < 0 || b.MaxBytes < 0 || steps < 0:
		return rollout.Refuse(rollout.Invalid, "buffer.depth %d, buffer.max_staleness %d, buffer.max_bytes %d and steps %d must not be negative",
			b.Depth, b.MaxStaleness, b.MaxBytes, steps)
	case b.OnStale != rollout.DropStale && b.OnStale != rollout.KeepStale && b.OnStale != rollout.WaitStale:
		return rollout.Refuse(rollout.Invalid, "buffer.on_stale is %q; it is %q, %q or %q", b.OnStale, rollout.DropStale, rollout.KeepStale, rollout.WaitStale)
	case b.Order != "" && b.Order != rollout.StartOrder && b.Order != rollout.FinishOrder:
		return rollout.Refuse(rollout.Invalid, "buffer.order is %q; it is %q or %q", b.Order, rollout.StartOrder, rollout.FinishOrder)
	}
	return nil
}

func limits(b rollout.BufferSpec, steps int) []any {
	return []any{b.Depth, b.GroupsPerStep, b.MaxStaleness, string(b.OnStale), steps, b.First(steps), b.MaxBytes, string(b.Order)}
}

// SetVersion tells the newest published version: staleness is measured against it. Versions only grow; an older
// one than known changes nothing.
func (s *Store) SetVersion(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion) error {
	r, err := s.eval(ctx, versionScript, run, int64(v))
	if err != nil {
		return fmt.Errorf("set version: %w", err)
	}
	s.swept(run, r.seqs(1))
	return nil
}

// SaveStatus keeps the workflow's mirror of itself. A status that is over ends the granting of new steps.
func (s *Store) SaveStatus(ctx context.Context, status rollout.RunStatus) error {
	text, err := json.Marshal(status)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "status of run %s: %v", status.Spec.Name, err)
	}
	if _, err := s.eval(ctx, statusScript, status.Spec.Name, text, flag(status.State.Over())); err != nil {
		return fmt.Errorf("save status: %w", err)
	}
	return nil
}

// Status is the mirror as it was saved last; a run that was only opened is running.
func (s *Store) Status(ctx context.Context, run rollout.RunName) (rollout.RunStatus, error) {
	fields, err := s.rdb.HMGet(ctx, s.key(run, "run"), "status", "spec").Result()
	if err != nil {
		return rollout.RunStatus{}, trouble("read status", err)
	}
	return statusOf(run, reply(fields))
}

func statusOf(run rollout.RunName, fields reply) (rollout.RunStatus, error) {
	var status rollout.RunStatus
	if fields.str(1) == "" {
		return status, noSuchRun(run)
	}
	if fields.str(0) == "" {
		status.State = rollout.RunRunning
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

// Runs is the status of every run, by name.
func (s *Store) Runs(ctx context.Context) ([]rollout.RunStatus, error) {
	names, err := s.rdb.SMembers(ctx, s.index()).Result()
	if err != nil {
		return nil, trouble("list runs", err)
	}
	slices.Sort(names)
	found := make([]*redis.SliceCmd, len(names))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			found[i] = p.HMGet(ctx, s.key(rollout.RunName(name), "run"), "status", "spec")
		}
		return nil
	})
	if err != nil {
		return nil, trouble("list runs", err)
	}
	runs := make([]rollout.RunStatus, 0, len(names))
	for i, name := range names {
		status, err := statusOf(rollout.RunName(name), reply(found[i].Val()))
		if rollout.Refused(err, rollout.NoSuchRun) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, status)
	}
	return runs, nil
}

// Restore tells a run that was opened in an empty Redis how far it had come: granted steps are not granted again,
// group numbers go on, and the epochs start above every earlier one, so that a trainer process of the time before is fenced
// off. Batches and games of the time before are lost. On a run that has granted a step it changes nothing.
func (s *Store) Restore(ctx context.Context, status rollout.RunStatus) (restored bool, err error) {
	r, err := s.eval(ctx, restoreScript, status.Spec.Name,
		int64(status.NextStep), int64(status.PolicyVersion), status.Launched, s.now().Unix())
	if err != nil {
		return false, fmt.Errorf("restore run: %w", err)
	}
	return r.int(1) == 1, nil
}

// Delete forgets the run and everything it holds. Deleting what is not there is no error.
func (s *Store) Delete(ctx context.Context, run rollout.RunName) error {
	if _, err := s.eval(ctx, deleteScript, run); err != nil {
		return fmt.Errorf("delete run: %w", err)
	}
	if err := s.rdb.SRem(ctx, s.index(), string(run)).Err(); err != nil {
		return trouble("delete run", err)
	}
	return nil
}
