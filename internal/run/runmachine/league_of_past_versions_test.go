package runmachine

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

func leagueOf(seed int64, l runspec.League) *Run {
	return NewRun(runspec.Spec{Name: "demo", Seed: seed, League: l}, time.Time{})
}

// TestUniformMembers: after twelve past versions, each is one of the four members in a third of all runs.
func TestUniformMembers(t *testing.T) {
	t.Parallel()
	const runs, past, slots = 3000, 12, 4
	var member [past]int
	for seed := range int64(runs) {
		r := leagueOf(seed, runspec.League{Slots: slots})
		for v := range rollout.PolicyVersion(past) {
			before := slices.Clone(r.League.Members)
			r.offer(v)
			left := slices.DeleteFunc(before, func(v rollout.PolicyVersion) bool { return slices.Contains(r.League.Members, v) })
			if len(left) > 1 || len(r.League.Members) != min(slots, int(v)+1) || !slices.IsSorted(r.League.Members) {
				t.Fatalf("seed %d, version %d: members %v, and %v left", seed, v, r.League.Members, left)
			}
		}
		for _, v := range r.League.Members {
			member[v]++
		}
	}
	for v, n := range member {
		if share := float64(n) / runs; math.Abs(share-1.0/3) > 0.04 {
			t.Errorf("version %d is a member in %.3f of the runs, want a third", v, share)
		}
	}
}

// TestDraws: opponents are drawn by the pool's weights, the bot in its share, and the same again for the same seed.
func TestDraws(t *testing.T) {
	t.Parallel()
	const groups = 4000
	for _, tt := range []struct {
		pool runspec.LeaguePool
		want map[string]float64 // shares of the groups
	}{
		{runspec.UniformOpponents, map[string]float64{"random": .2, "v1": .8 / 3, "v4": .8 / 3, "v7": .8 / 3}},
		{runspec.NewestOpponents, map[string]float64{"random": .2, "v1": .8 / 3, "v4": .8 / 3, "v7": .8 / 3}},
		// The learner wins 9 tenths against v1, a half against v4 and a tenth against v7.
		{runspec.CloseOpponents, map[string]float64{"random": .2, "v1": .8 * .09 / .43, "v4": .8 * .25 / .43,
			"v7": .8 * .09 / .43}},
		{runspec.LostOpponents, map[string]float64{"random": .2, "v1": .8 * .01 / 1.07, "v4": .8 * .25 / 1.07,
			"v7": .8 * .81 / 1.07}},
	} {
		t.Run(string(tt.pool), func(t *testing.T) {
			t.Parallel()
			drawn := func(seed int64) (all []string) {
				r := leagueOf(seed, runspec.League{Slots: 3, Pool: tt.pool, Bot: "random", BotShare: .2})
				r.League = League{Members: []rollout.PolicyVersion{1, 4, 7}, Against: map[string]Against{
					"v1": {98, 89}, "v4": {98, 49}, "v7": {98, 9}}}
				for range groups {
					all = append(all, r.launch().Opponent)
				}
				return all
			}
			first := drawn(5)
			if !slices.Equal(first, drawn(5)) || slices.Equal(first, drawn(6)) {
				t.Error("the draws do not follow from the seed")
			}
			counts := map[string]int{}
			for _, player := range first {
				counts[player]++
			}
			for player, want := range tt.want {
				if share := float64(counts[player]) / groups; math.Abs(share-want) > 0.03 {
					t.Errorf("%s plays %.3f of the groups, want %.3f", player, share, want)
				}
			}
		})
	}
}

// TestWhoLeaves: under losses the version that the learner beats most leaves, under newest the oldest.
func TestWhoLeaves(t *testing.T) {
	t.Parallel()
	for pool, want := range map[runspec.LeaguePool][]rollout.PolicyVersion{
		runspec.NewestOpponents: {4, 7}, runspec.LostOpponents: {1, 7}, runspec.CloseOpponents: {1, 7},
	} {
		r := leagueOf(1, runspec.League{Slots: 2, Pool: pool})
		r.League = League{Members: []rollout.PolicyVersion{1, 4}, Past: 5, Against: map[string]Against{"v4": {98, 89}}}
		r.offer(7)
		if _, kept := r.League.Against["v4"]; !slices.Equal(r.League.Members, want) || kept != slices.Contains(want, 4) {
			t.Errorf("%s: members %v, want %v; results %v", pool, r.League.Members, want, r.League.Against)
		}
	}
}
