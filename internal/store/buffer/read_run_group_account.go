package buffer

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Account is what the buffer knows of a run's groups, each in exactly one place: Launched is the sum of the
// groups queued, in flight, ready, claimed, completed and dropped.
type Account struct {
	Launched int64                   `json:"launched"`
	Highest  rollout.GroupSeq        `json:"highest"` // highest group number heard of; -1: none
	Queued   []rollout.GroupSeq      `json:"queued"`
	InFlight []rollout.GroupSeq      `json:"in_flight"`
	Ready    []rollout.GroupSeq      `json:"ready"`
	Counts   steprecord.BufferCounts `json:"counts"`
	// GroupBytes is the mean stored size of the groups committed so far, for reserving room; 0: none was.
	GroupBytes int64 `json:"group_bytes"`

	NextStep   rollout.Step              `json:"next_step"`  // first step not completed
	ClaimedTo  rollout.Step              `json:"claimed_to"` // first step never granted
	Version    rollout.PolicyVersion     `json:"policy_version"`
	Generation rollout.TrainerGeneration `json:"generation"`
	Drops      map[rollout.Code]int64    `json:"drops,omitempty"` // by code

	// Mark is how far it has come, with the batches that were asked for. ConfirmedUnder is the replication id of Redis
	// under which the run has compared the account last, ReplicationID the present one.
	Mark           runstatus.Mark `json:"mark,omitzero"`
	ConfirmedUnder string         `json:"confirmed_under,omitempty"`
	ReplicationID  string         `json:"replication_id,omitempty"`

	// Refills is how many granted steps get a batch of other groups, because a trainer went back behind their lost ones.
	Refills int `json:"refills,omitempty"`

	// Mirrors is the highest number of what was said of the run's limits and status.
	Mirrors int64 `json:"mirrors,omitempty"`
}

// NeverConfirmed stands in for Redis' replication id when the run has never compared its account.
const NeverConfirmed = "never"

// Confirmed reports whether the account is one that the run has compared with its own, or that no run ever did.
func (a *Account) Confirmed() bool {
	return a.ConfirmedUnder == NeverConfirmed || a.ConfirmedUnder == a.ReplicationID
}

// Outstanding is the groups queued, in flight or ready, in the order of their launch.
func (a *Account) Outstanding() []rollout.GroupSeq {
	all := slices.Concat(a.Queued, a.InFlight, a.Ready)
	slices.Sort(all)
	return all
}

// Account reads the whole account at one instant.
func (s *Store) Account(ctx context.Context, run rollout.RunName) (Account, error) {
	return s.account(ctx, run)
}

// AccountSince is the account with the batches of the steps from one on, the latest 64 of them.
func (s *Store) AccountSince(ctx context.Context, run rollout.RunName, step rollout.Step) (Account, error) {
	return s.account(ctx, run, max(0, int64(step)))
}

func (s *Store) account(ctx context.Context, run rollout.RunName, from ...any) (Account, error) {
	r, err := s.eval(ctx, accountScript, run, from...)
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
		Mark:       markOf(r.list(13)).Mark, ConfirmedUnder: r.str(14), ReplicationID: r.str(15), Refills: int(r.int(17)),
		Mirrors: r.int(18),
	}
	for i := range r.list(16) {
		of := r.list(16).list(i)
		g := runstatus.Grant{Step: rollout.Step(of.int(0)), Digest: of.str(2), Seqs: []rollout.GroupSeq{},
			Version: rollout.PolicyVersion(of.int(3))}
		for j := range words(of.str(1)) {
			g.Seqs = append(g.Seqs, rollout.GroupSeq(words(of.str(1)).int(j)))
		}
		a.Mark.Grants = append(a.Mark.Grants, g)
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
func (s *Store) Counts(ctx context.Context, run rollout.RunName) (steprecord.BufferCounts, error) {
	a, err := s.Account(ctx, run)
	return a.Counts, err
}
