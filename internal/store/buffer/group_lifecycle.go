package buffer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// Queue registers a group launched with a policy version, the oldest that any turn of it will have. The first
// scenario registered for it wins and is returned, now and later; an empty scenario registers none, and asks which
// one is. A group that is over is refused as Fenced.
func (s *Store) Queue(ctx context.Context, ref rollout.GroupRef, scenario []byte, version rollout.PolicyVersion,
	launchedAt time.Time) ([]byte, error) {
	r, err := s.evalGroup(ctx, queueScript, ref, scenario, int64(version), stamp(launchedAt))
	if err != nil {
		return nil, fmt.Errorf("queue group: %w", err)
	}
	if !r.ok() {
		return nil, groupOver(ref, r.str(1), r.str(2))
	}
	return []byte(r.str(1)), nil
}

// Start notes a group's first dispatch: queued becomes in flight. A group that is further already stays where it is.
func (s *Store) Start(ctx context.Context, ref rollout.GroupRef) error {
	r, err := s.evalGroup(ctx, startScript, ref)
	if err != nil {
		return fmt.Errorf("start group: %w", err)
	}
	if !r.ok() {
		return groupOver(ref, r.str(1), r.str(2))
	}
	return nil
}

// Commit is the outcome of a commit.
type Commit struct {
	Duplicate bool         // it had been committed, or dropped, before; this call changed nothing
	Dropped   rollout.Code // why it will not be trained on; empty when it is ready, claimed or completed
}

// CommitGroup makes a group ready, once, and deletes the checkpoints of its games. A group with a row that must
// not be trained on is refused as Invalid. A group that has been committed before is a Duplicate whatever g now
// holds, because its games may be gone.
func (s *Store) CommitGroup(ctx context.Context, g *rollout.Group) (Commit, error) {
	if done, err := s.peek(ctx, g.Ref); err != nil || done != nil {
		return deref(done), err
	}
	if err := check(g); err != nil {
		return Commit{}, err
	}
	data, err := pack.Group(g)
	if err != nil {
		return Commit{}, rollout.Refuse(rollout.Invalid, "group %s: %v", g.Ref, err)
	}
	of := steprecord.ViewOf(g)
	view, err := json.Marshal(of)
	if err != nil {
		return Commit{}, rollout.Refuse(rollout.Invalid, "group %s: %v", g.Ref, err)
	}
	ready, err := readyFact(g, of, s.now())
	if err != nil {
		return Commit{}, err
	}
	stale, err := droppedFact(g.Ref, rollout.CodeStale, g.Phases, s.now())
	if err != nil {
		return Commit{}, err
	}
	r, err := s.evalGroup(ctx, commitScript, g.Ref, int64(g.MinVersion), len(g.Trajectories), view, data,
		flag(of.ZeroVariance), meanLength(g.Phases), ready, stale, sumOf(data))
	if err != nil {
		return Commit{}, fmt.Errorf("commit group: %w", err)
	}
	_ = s.collect(ctx, g.Ref.Run) // else with the next group
	if state := r.str(1); state == "dropped" {
		return Commit{Dropped: rollout.Code(r.str(2))}, nil
	} else if state != "" {
		return Commit{Duplicate: true}, nil
	}
	return Commit{}, nil
}

// sumOf tells what is stored of groups apart.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// meanLength is the mean of the lengths of a group's episodes, rounded; empty: they are not known.
func meanLength(phases []int) string {
	if len(phases) == 0 {
		return ""
	}
	return strconv.Itoa((stat.Sum(slices.Values(phases)) + len(phases)/2) / len(phases))
}

// flag is a truth as the scripts take it.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// peek is how an earlier commit of the group ended; nil when there was none.
func (s *Store) peek(ctx context.Context, ref rollout.GroupRef) (*Commit, error) {
	r, err := s.evalGroup(ctx, peekScript, ref)
	if err != nil {
		return nil, fmt.Errorf("commit group: %w", err)
	}
	switch r.str(1) {
	case "", "queued", "in_flight":
		return nil, nil
	case "dropped":
		return &Commit{Duplicate: true, Dropped: rollout.Code(r.str(2))}, nil
	}
	return &Commit{Duplicate: true}, nil
}

func deref(c *Commit) Commit {
	if c == nil {
		return Commit{}
	}
	return *c
}

// Discard drops a queued or in-flight group; the lengths of its games may be known. A group never heard of is dropped
// too, so that it cannot come late. A group that is ready or further is a Conflict.
func (s *Store) Discard(ctx context.Context, ref rollout.GroupRef, code rollout.Code, phases ...int) error {
	if err := checkCode(ref, code); err != nil {
		return err
	}
	fact, err := droppedFact(ref, code, phases, s.now())
	if err != nil {
		return err
	}
	length := meanLength(phases)
	if length == "" {
		length = s.lengthSoFar(ctx, ref)
	}
	r, err := s.evalGroup(ctx, discardScript, ref, string(code), fact, length)
	if err != nil {
		return fmt.Errorf("discard group: %w", err)
	}
	_ = s.collect(ctx, ref.Run) // else with the next group
	if !r.ok() {
		return rollout.Refuse(rollout.Conflict, "group %s is %s and cannot be discarded any more", ref, r.str(1))
	}
	return nil
}

// Release lets a group go while it is queued: before a request of it has been dispatched. One that is further, that
// was dropped for another reason, or that was never heard of stays what it is, and the answer is false.
func (s *Store) Release(ctx context.Context, ref rollout.GroupRef, code rollout.Code) (released bool, err error) {
	if err := checkCode(ref, code); err != nil {
		return false, err
	}
	fact, err := droppedFact(ref, code, nil, s.now())
	if err != nil {
		return false, err
	}
	r, err := s.evalGroup(ctx, releaseScript, ref, string(code), fact)
	if err != nil {
		return false, fmt.Errorf("release group: %w", err)
	}
	return r.int(1) == 1, nil
}

func checkCode(ref rollout.GroupRef, code rollout.Code) error {
	switch code {
	case "":
		return rollout.Refuse(rollout.Invalid, "group %s cannot be dropped without a code that says why", ref)
	case steprecord.Trained:
		return rollout.Refuse(rollout.Invalid, "group %s cannot be dropped as %q: that is what the others are", ref, code)
	}
	return nil
}

// evalGroup runs a script whose first argument is a group's number.
func (s *Store) evalGroup(ctx context.Context, sc *script, ref rollout.GroupRef, args ...any) (reply, error) {
	if ref.Seq < 0 {
		return nil, rollout.Refuse(rollout.Invalid, "group %s: the number must not be negative", ref)
	}
	return s.eval(ctx, sc, ref.Run, append([]any{int64(ref.Seq)}, args...)...)
}

func groupOver(ref rollout.GroupRef, state, code string) error {
	if code != "" {
		return rollout.Refuse(rollout.Fenced, "group %s was dropped (%s); nothing can be added to it", ref, code)
	}
	return rollout.Refuse(rollout.Fenced, "group %s is %s; nothing can be added to it", ref, state)
}
