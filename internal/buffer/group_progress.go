package buffer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// GroupProgress is how far a group that is not committed has come.
type GroupProgress struct {
	Seq        rollout.GroupSeq `json:"seq"`
	InFlight   bool             `json:"in_flight"` // false: queued, nothing dispatched yet
	LaunchedAt time.Time        `json:"launched_at,omitzero"`
	Games      []GameProgress   `json:"games"` // those with something saved, by sample
}

// GameProgress is how far one game of a group has come.
type GameProgress struct {
	Sample   int  `json:"sample"`
	Attempt  int  `json:"attempt"`
	Phases   int  `json:"phases"` // finished
	Finished bool `json:"finished"`
}

// Progress lists the queued and in-flight groups in the order of their launch: what the run is waiting for. It reads
// no games and no tokens.
func (s *Store) Progress(ctx context.Context, run rollout.RunName) ([]GroupProgress, error) {
	r, err := s.eval(ctx, progressScript, run)
	if err != nil {
		return nil, fmt.Errorf("progress: %w", err)
	}
	groups := []GroupProgress{}
	for state, inFlight := range map[int]bool{1: false, 2: true} {
		for i := range r.list(state) {
			g, err := progressOf(r.list(state).list(i))
			if err != nil {
				return nil, fmt.Errorf("progress of %s: %w", run, err)
			}
			g.InFlight = inFlight
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b GroupProgress) int { return cmp.Compare(a.Seq, b.Seq) })
	return groups, nil
}

func progressOf(r reply) (GroupProgress, error) {
	g := GroupProgress{Seq: rollout.GroupSeq(r.int(0)), Games: []GameProgress{}}
	if r.str(1) != "" { // empty for a group that came back after Redis was emptied
		at, err := time.Parse(time.RFC3339Nano, r.str(1))
		if err != nil {
			return g, fmt.Errorf("launch of group %d: %w", g.Seq, err)
		}
		g.LaunchedAt = at
	}
	saved := r.list(2)
	for i := 0; i+3 < len(saved); i += 4 {
		g.Games = append(g.Games, GameProgress{
			Sample: int(saved.int(i)), Attempt: int(saved.int(i + 1)), Phases: int(saved.int(i + 2)),
			Finished: saved.int(i+3) == 1,
		})
	}
	slices.SortFunc(g.Games, func(a, b GameProgress) int { return cmp.Compare(a.Sample, b.Sample) })
	return g, nil
}
