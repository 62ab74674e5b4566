package buffer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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

// Progress lists the queued and in-flight groups, which the run waits for, in the order of their launch. It reads no
// games and no tokens.
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
	return groups, s.addPhases(ctx, run, groups)
}

// addPhases adds the phases in the games' journals: the account knows only finished games.
func (s *Store) addPhases(ctx context.Context, run rollout.RunName, groups []GroupProgress) error {
	var of []*GameProgress
	var refs []rollout.EpisodeRef
	for _, g := range groups {
		for i := range g.Games {
			if at := &g.Games[i]; !at.Finished {
				ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: g.Seq}, Sample: at.Sample}
				of, refs = append(of, at), append(refs, ref)
			}
		}
	}
	phases, err := s.phasesInJournals(ctx, refs)
	for i := range phases {
		of[i].Phases = max(of[i].Phases, phases[i])
	}
	return err
}

// phasesInJournals counts the finished phases in each game's journal; 0 for a game without a journal.
func (s *Store) phasesInJournals(ctx context.Context, refs []rollout.EpisodeRef) ([]int, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	heads := make([]*redis.StringCmd, len(refs))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, ref := range refs {
			heads[i] = p.LIndex(ctx, s.gameKey(ref, "journal"), 0)
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return nil, trouble("read how far games have come", err)
	}
	phases := make([]int, len(refs))
	for i, head := range heads {
		phases[i] = int(words(head.Val()).int(1))
	}
	return phases, nil
}

// lengthSoFar is the mean number of finished phases of a group's games that have finished any, rounded. Empty: no game
// has, or the journals cannot be read; then only the account is used.
func (s *Store) lengthSoFar(ctx context.Context, ref rollout.GroupRef) string {
	fields, err := s.rdb.HGetAll(ctx, s.groupKey("games", ref)).Result()
	if err != nil {
		return ""
	}
	var refs []rollout.EpisodeRef
	var known []int
	for field := range fields {
		sample, begun := strings.CutPrefix(field, "a")
		n, err := strconv.Atoi(sample)
		if !begun || err != nil {
			continue
		}
		phases, err := strconv.Atoi(fields["p"+sample])
		if err != nil {
			phases = -1
		}
		refs, known = append(refs, rollout.EpisodeRef{GroupRef: ref, Sample: n}), append(known, phases)
	}
	inJournals, err := s.phasesInJournals(ctx, refs)
	if err != nil {
		return ""
	}
	var all []int
	for i, n := range known {
		if n = max(n, inJournals[i]); n > 0 || known[i] >= 0 {
			all = append(all, n)
		}
	}
	return meanLength(all)
}

func progressOf(r reply) (GroupProgress, error) {
	g := GroupProgress{Seq: rollout.GroupSeq(r.int(0)), Games: []GameProgress{}}
	at, err := readStamp(r.str(1)) // empty for a group that came back after Redis was emptied
	if err != nil {
		return g, fmt.Errorf("launch of group %d: %w", g.Seq, err)
	}
	g.LaunchedAt = at
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
