package buffer

import (
	"fmt"
	"iter"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// RawBatch is a claimed batch, or one rank's share of it, with its groups still packed.
type RawBatch struct {
	Run            rollout.RunName
	Step           rollout.Step
	TrainerVersion rollout.PolicyVersion
	Granted        bool // by this claim; false when the step had been claimed before
	Groups         []RawGroup
}

// RawGroup is a packed group; the share has its trajectories From to To.
type RawGroup struct {
	Seq      rollout.GroupSeq
	From, To int
	whole    bool
	packed   []byte
}

// shareOf cuts the groups of a batch, given as number and trajectory count in turn.
func shareOf(groups reply, share Share) []RawGroup {
	total := 0
	for i := 1; i < len(groups); i += 2 {
		total += int(groups.int(i))
	}
	from, to := share.cut(total)
	var out []RawGroup
	for i, at := 0, 0; i+1 < len(groups); i += 2 {
		n := int(groups.int(i + 1))
		g := RawGroup{Seq: rollout.GroupSeq(groups.int(i)), From: max(from-at, 0), To: min(to-at, n)}
		g.whole = g.From == 0 && g.To == n
		if g.From < g.To {
			out = append(out, g)
		}
		at += n
	}
	return out
}

// unpack is the share's part of the group.
func (g *RawGroup) unpack() (*rollout.Group, error) {
	group, err := pack.ReadGroup(g.packed)
	if err != nil {
		return nil, fmt.Errorf("group %d: %w", g.Seq, err)
	}
	if g.To > len(group.Trajectories) {
		return nil, fmt.Errorf("group %d: %w: %d trajectories, want %d", g.Seq, pack.ErrCorrupt,
			len(group.Trajectories), g.To)
	}
	group.Trajectories = group.Trajectories[g.From:g.To]
	return group, nil
}

// All unpacks one group after the other and stops at the first error.
func (b *RawBatch) All() iter.Seq2[*rollout.Group, error] {
	return func(yield func(*rollout.Group, error) bool) {
		for i := range b.Groups {
			g, err := b.Groups[i].unpack()
			if !yield(g, err) || err != nil {
				return
			}
		}
	}
}

// Batch unpacks all of it.
func (b *RawBatch) Batch() (*rollout.Batch, error) {
	out := &rollout.Batch{Run: b.Run, Step: b.Step, TrainerVersion: b.TrainerVersion,
		Groups: make([]rollout.Group, 0, len(b.Groups))}
	for g, err := range b.All() {
		if err != nil {
			return nil, fmt.Errorf("batch of step %d: %w", b.Step, err)
		}
		out.Groups = append(out.Groups, *g)
	}
	return out, nil
}

// Share is one rank's part of a batch: the trajectories are cut, in order, into World parts that differ by one
// trajectory at most. The parts of all ranks are the batch. The zero Share is all of it.
type Share struct{ Rank, World int }

// Validate reports a share that cannot be.
func (sh Share) Validate() error {
	if sh == (Share{}) || sh.World > 0 && 0 <= sh.Rank && sh.Rank < sh.World {
		return nil
	}
	return rollout.Refuse(rollout.Invalid, "rank %d of world %d: ranks go from 0 to world - 1", sh.Rank, sh.World)
}

// cut is the share's part [from, to) of n trajectories.
func (sh Share) cut(n int) (from, to int) {
	if sh.World == 0 {
		return 0, n
	}
	return sh.Rank * n / sh.World, (sh.Rank + 1) * n / sh.World
}
