package buffer

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Whereabouts is where a group is, or went.
type Whereabouts struct {
	State   GroupState       // empty: never heard of
	Code    rollout.Code     // why it was dropped
	Step    *rollout.Step    // that it was trained on in; nil: not, or no longer known
	Highest rollout.GroupSeq // highest group number heard of
	Next    rollout.Step     // the first that is not completed
}

// GroupState is where a group is.
type GroupState string

// The states of groups. A completed one is still kept, a trained one is not.
const (
	GroupQueued    GroupState = "queued"
	GroupInFlight  GroupState = "in_flight"
	GroupReady     GroupState = "ready"
	GroupClaimed   GroupState = "claimed"
	GroupCompleted GroupState = "completed"
	GroupTrained   GroupState = "trained"
	GroupDropped   GroupState = "dropped"
)

// Whereabouts finds out where a group is, or went. It reads the lists of the steps that are not kept any more, and
// is for people.
func (s *Store) Whereabouts(ctx context.Context, ref rollout.GroupRef) (Whereabouts, error) {
	r, err := s.evalGroup(ctx, whereaboutsScript, ref)
	if err != nil {
		return Whereabouts{}, fmt.Errorf("look for group %s: %w", ref, err)
	}
	w := Whereabouts{State: GroupState(r.str(1)), Code: rollout.Code(r.str(2)), Highest: rollout.GroupSeq(r.int(3)),
		Next: rollout.Step(r.int(5))}
	if w.State == GroupTrained {
		w.Step, err = s.trainedIn(ctx, ref, rollout.Step(r.int(4)))
	}
	return w, err
}

// stepsSearched is how many steps are read at once.
const stepsSearched = 512

// trainedIn is the step before a given one whose batch had the group; nil when no record says so.
func (s *Store) trainedIn(ctx context.Context, ref rollout.GroupRef, before rollout.Step) (*rollout.Step, error) {
	for to := before; to > 0; to -= stepsSearched {
		from := max(0, to-stepsSearched)
		found := make([]*redis.StringCmd, 0, to-from)
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for k := from; k < to; k++ {
				found = append(found, p.HGet(ctx, s.stepKey(ref.Run, k), "seqs"))
			}
			return nil
		})
		if err != nil && err != redis.Nil {
			return nil, trouble("look for a group's step", err)
		}
		for i, f := range slices.Backward(found) {
			if slices.Contains(words(f.Val()), any(fmt.Sprint(int64(ref.Seq)))) {
				step := from + rollout.Step(i)
				return &step, nil
			}
		}
	}
	return nil, nil
}

// noGame says why no game of an episode is kept.
func (s *Store) noGame(ctx context.Context, ref rollout.EpisodeRef) error {
	w, err := s.Whereabouts(ctx, ref.GroupRef)
	if err != nil {
		return err // there is no such run, say
	}
	return rollout.Refuse(rollout.NotRetained, "no game of %s is kept: %s", ref, w.gone(ref))
}

// gone says why an existing or former group has no game of an episode.
func (w Whereabouts) gone(ref rollout.EpisodeRef) string {
	switch w.State {
	case "":
		if ref.Seq > w.Highest {
			return fmt.Sprintf("group %d was never begun; the run has launched those up to %d", ref.Seq, w.Highest)
		}
		return fmt.Sprintf("nothing is known of group %d; the buffer's Redis has lost it", ref.Seq)
	case GroupQueued:
		return fmt.Sprintf("group %d is queued, none of its games has begun", ref.Seq)
	case GroupInFlight:
		return "it has not finished its first phase yet"
	case GroupTrained:
		if w.Step == nil {
			return fmt.Sprintf("group %d was trained on, and is past retain_steps", ref.Seq)
		}
		return fmt.Sprintf("group %d was trained on in step %d; a retain_steps of %d or more would keep it", ref.Seq, *w.Step,
			w.Next-*w.Step)
	case GroupDropped:
		return fmt.Sprintf("group %d was given up: %s", ref.Seq, w.Code)
	}
	return fmt.Sprintf("group %d is %s without it", ref.Seq, w.State)
}

// GroupState is where a group is, or went, without the step that it was trained on in: a single call.
func (s *Store) GroupState(ctx context.Context, ref rollout.GroupRef) (GroupState, error) {
	r, err := s.evalGroup(ctx, whereaboutsScript, ref)
	if err != nil {
		return "", fmt.Errorf("look for group %s: %w", ref, err)
	}
	return GroupState(r.str(1)), nil
}

// InPlay reports whether a group is queued or in flight, or not known yet.
func (s *Store) InPlay(ctx context.Context, ref rollout.GroupRef) (bool, error) {
	left, err := s.peek(ctx, ref)
	return left == nil, err
}
