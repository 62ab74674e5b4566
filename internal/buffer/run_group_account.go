package buffer

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Account is what the buffer knows of a run's groups, each in exactly one place: Launched is the sum of the
// groups queued, in flight, ready, claimed, completed and dropped.
type Account struct {
	Launched int64                `json:"launched"`
	Highest  rollout.GroupSeq     `json:"highest"` // highest group number heard of; -1: none
	Queued   []rollout.GroupSeq   `json:"queued"`
	InFlight []rollout.GroupSeq   `json:"in_flight"`
	Ready    []rollout.GroupSeq   `json:"ready"`
	Counts   rollout.BufferCounts `json:"counts"`
	// GroupBytes is the mean stored size of the groups committed so far, for reserving room; 0: none was.
	GroupBytes int64 `json:"group_bytes"`

	NextStep   rollout.Step              `json:"next_step"`  // first step not completed
	ClaimedTo  rollout.Step              `json:"claimed_to"` // first step never granted
	Version    rollout.PolicyVersion     `json:"policy_version"`
	Generation rollout.TrainerGeneration `json:"epoch"`
	Drops      map[rollout.Code]int64    `json:"drops,omitempty"` // by code
}

// Outstanding is the groups queued, in flight or ready, in the order of their launch.
func (a *Account) Outstanding() []rollout.GroupSeq {
	all := slices.Concat(a.Queued, a.InFlight, a.Ready)
	slices.Sort(all)
	return all
}

// Account reads the whole account at one instant.
func (s *Store) Account(ctx context.Context, run rollout.RunName) (Account, error) {
	r, err := s.eval(ctx, accountScript, run)
	if err != nil {
		return Account{}, fmt.Errorf("account: %w", err)
	}
	a := Account{
		Launched:   r.int(1),
		Highest:    rollout.GroupSeq(r.int(2)),
		NextStep:   rollout.Step(r.int(3)),
		ClaimedTo:  rollout.Step(r.int(4)),
		Version:    rollout.PolicyVersion(r.int(5)),
		Generation: rollout.TrainerGeneration(r.int(6)),
		Counts:     r.list(7).counts(),
		Queued:     r.seqs(8),
		InFlight:   r.seqs(9),
		Ready:      r.seqs(10),
		Drops:      map[rollout.Code]int64{},
		GroupBytes: r.int(12),
	}
	drops := r.list(11)
	for i := 0; i+1 < len(drops); i += 2 {
		a.Drops[rollout.Code(drops.str(i))] = drops.int(i + 1)
	}
	return a, nil
}

// Unheard is the groups before a given one, or before the highest heard of, that the buffer never heard of: launches
// that have not arrived yet, or never will. It looks at the latest 16,384.
func (s *Store) Unheard(ctx context.Context, run rollout.RunName, before rollout.GroupSeq) ([]rollout.GroupSeq, error) {
	r, err := s.eval(ctx, unheardScript, run, int64(before))
	if err != nil {
		return nil, fmt.Errorf("look for launches that have not arrived: %w", err)
	}
	return r.seqs(1), nil
}

// Counts is the run's groups by state.
func (s *Store) Counts(ctx context.Context, run rollout.RunName) (rollout.BufferCounts, error) {
	a, err := s.Account(ctx, run)
	return a.Counts, err
}
