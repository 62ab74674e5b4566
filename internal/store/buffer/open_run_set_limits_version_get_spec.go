package buffer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// Open makes the run known and records its limits. Opening it again with the same spec changes nothing; another spec
// under the same name is a Conflict, and a run that was deleted is RunOver. The trainer processes of a name that is
// used again get generations above all those of its earlier runs.
func (s *Store) Open(ctx context.Context, given runspec.Spec) error {
	return s.open(ctx, given, true)
}

// Reopen is Open for a run that has a workflow. A Redis that does not know it has forgotten it: its account is in doubt
// until the run has compared it with its own.
func (s *Store) Reopen(ctx context.Context, given runspec.Spec) error {
	return s.open(ctx, given, false)
}

func (s *Store) open(ctx context.Context, given runspec.Spec, isNew bool) error {
	if err := given.Name.ValidateID(); err != nil {
		return rollout.Refuse(rollout.Invalid, "%v", err)
	}
	if err := spec.ValidateBuffer(given.Buffer, given.Steps); err != nil {
		return err
	}
	text, err := json.Marshal(given)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "spec of run %s: %v", given.Name, err)
	}
	generation, err := s.lastGeneration(ctx, given.Name.Plain())
	if err != nil {
		return fmt.Errorf("open run: %w", err)
	}
	if given.Name.Life() > 1 {
		generation = max(generation, s.now().Unix()) // Redis may have lost which ones trainers of an earlier life had
	}
	hash := spec.Hash(given)
	args := append([]any{text, hash, generation, flag(isNew)}, limits(given.Buffer, given.Steps)...)
	r, err := s.eval(ctx, openScript, given.Name, args...)
	switch {
	case err != nil:
		return fmt.Errorf("open run: %w", err)
	case r.code() == rollout.RunOver:
		return rollout.Refuse(rollout.RunOver, "run %s was deleted", given.Name)
	case r.int(1) == 0 && r.str(2) != hash:
		return rollout.Refuse(rollout.Conflict, "run %s exists with another spec%s; choose another name, "+
			"or change the run with `millrace run set`", given.Name.Plain(), s.differing(ctx, given))
	}
	// A crash before these lines is repaired by the retry.
	if err := s.live(ctx, given.Name.Plain(), given.Name.Life(), 0); err != nil {
		return err
	}
	return trouble("open run", s.runs.Open(ctx, given.Name))
}

// differing names the keys in which a spec is not the one that its run was started with.
func (s *Store) differing(ctx context.Context, given runspec.Spec) string {
	was, err := s.Given(ctx, given.Name)
	var keys []string
	for _, key := range spec.Table().Differences(&was, &given) {
		keys = append(keys, key.Path)
	}
	if err != nil || len(keys) == 0 {
		return ""
	}
	return ", which differs in " + units.Few(keys, 4)
}

// SetLimits changes depth, groups per step, staleness, bytes, order and length of a run, from the next claim on. A
// granted batch stays as it is; a ready group that is now too stale is dropped. mirror numbers what the run says of
// itself: a call with a lower number than the highest one seen changes nothing, so that a late call cannot bring back
// old limits.
func (s *Store) SetLimits(ctx context.Context, run rollout.RunName, b runspec.BufferSpec, steps int,
	mirror int64) error {
	if err := spec.ValidateBuffer(b, steps); err != nil {
		return err
	}
	left, err := leftFact(run, s.now())
	if err != nil {
		return err
	}
	return s.do(ctx, "set limits", limitsScript, run, append([]any{mirror, left}, limits(b, steps)...)...)
}

// limits is what scripts know of a run's limits: names and values.
func limits(b runspec.BufferSpec, steps int) []any {
	return append(spec.BufferFields(b, steps), "first", b.First(steps))
}

// SetVersion tells the newest published version: staleness is measured against it. Versions only grow; an older
// one than known changes nothing. A new one of a trainer process that was replaced is refused as Fenced; generation 0
// is of no particular process.
func (s *Store) SetVersion(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion,
	by rollout.TrainerGeneration) error {
	left, err := leftFact(run, s.now())
	if err != nil {
		return err
	}
	r, err := s.eval(ctx, versionScript, run, int64(v), left, int64(by))
	if err == nil && r.code() == rollout.Fenced {
		err = fenced(run, by, r.int(1))
	}
	if err != nil {
		return fmt.Errorf("set version: %w", err)
	}
	return nil
}

// Given is the spec that a run was started with.
func (s *Store) Given(ctx context.Context, run rollout.RunName) (runspec.Spec, error) {
	var given runspec.Spec
	text, err := s.rdb.HGet(ctx, s.key(run, "run"), "spec").Result()
	if err == redis.Nil {
		return given, noSuchRun(run)
	}
	if err != nil {
		return given, trouble("read the run's spec", err)
	}
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return given, fmt.Errorf("spec of run %s: %w", run, err)
	}
	return given, nil
}
