package runmachine

import (
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// League is the past versions that play against the learner. They stay on the engines, so that no version is ever
// loaded for it: one becomes a member when the next is published, or never, and what has left does not come back. At
// most one leaves for each version that is published.
type League struct {
	Members []rollout.PolicyVersion `json:"members"` // at most league.slots; by version
	Past    int64                   `json:"past"`    // versions that could have become members so far
	// Against is the learner's results against members and the bot, by player.
	Against map[string]Against `json:"against,omitempty"`
}

// Against is the learner's results against one player.
type Against struct {
	Groups int64   `json:"groups"`
	Score  float64 `json:"score"` // sum of the groups' shares of games in which the learner ended before the player
}

// share is the learner's expected share against the player: nothing known is a half.
func (a Against) share() float64 { return (a.Score + 1) / (float64(a.Groups) + 2) }

// The streams of chance, so that none shifts another.
const (
	chanceOfOpponent = 0x6c65616775650000 + iota
	chanceOfBot
	chanceOfEntry
	chanceOfLeaving
)

// chance is a number from 0 to below 1, the n-th of a stream of the run.
func (r *Run) chance(stream uint64, n int64) float64 {
	const golden, bits = 0x9E3779B97F4A7C15, 53
	return float64(stat.Mix(stat.Mix(uint64(r.Spec.Seed)+stream)+(uint64(n)+1)*golden)>>(64-bits)) / (1 << bits)
}

// weight is how likely a player is drawn, beside the others, and how little it is to leave.
func (r *Run) weight(player string) float64 {
	share := r.League.Against[player].share()
	switch r.Spec.League.Pool {
	case runspec.CloseOpponents:
		return share * (1 - share)
	case runspec.LostOpponents:
		return (1 - share) * (1 - share)
	case runspec.UniformOpponents, runspec.NewestOpponents:
	}
	return 1
}

// drawOpponent is who plays against the learner in a group: a version's player, the bot, or nobody of the league. It
// follows from the run's seed, the group and who is a member.
func (r *Run) drawOpponent(seq rollout.GroupSeq) string {
	l := r.Spec.League
	switch {
	case l.Slots == 0:
		return ""
	case l.Bot != "" && r.chance(chanceOfBot, int64(seq)) < l.BotShare:
		return l.Bot
	case len(r.League.Members) == 0:
		return rollout.PolicyVersion(0).Player() // which is always there
	}
	sum := 0.0
	for _, v := range r.League.Members {
		sum += r.weight(v.Player())
	}
	left := r.chance(chanceOfOpponent, int64(seq)) * sum
	for _, v := range r.League.Members {
		if left -= r.weight(v.Player()); left < 0 {
			return v.Player()
		}
	}
	return r.League.Members[len(r.League.Members)-1].Player()
}

// offer gives a version that is no longer the newest its chance to become a member.
func (r *Run) offer(v rollout.PolicyVersion) {
	l, slots := &r.League, r.Spec.League.Slots
	at, is := slices.BinarySearch(l.Members, v)
	if is || slots == 0 {
		return
	}
	l.Past++
	leaves := -1
	if len(l.Members) >= slots {
		switch r.Spec.League.Pool {
		case runspec.NewestOpponents:
			leaves = 0
		case runspec.CloseOpponents, runspec.LostOpponents:
			leaves = 0
			for i := range l.Members {
				if r.weight(l.Members[i].Player()) < r.weight(l.Members[leaves].Player()) {
					leaves = i
				}
			}
		default: // as a reservoir: each past version is as likely as the others to be a member
			if r.chance(chanceOfEntry, l.Past)*float64(l.Past) >= float64(slots) {
				return
			}
			leaves = int(r.chance(chanceOfLeaving, l.Past) * float64(len(l.Members)))
		}
	}
	l.Members = slices.Insert(slices.Clone(l.Members), at, v)
	if leaves >= 0 {
		if leaves >= at {
			leaves++
		}
		delete(l.Against, l.Members[leaves].Player())
		l.Members = slices.Delete(l.Members, leaves, leaves+1)
	}
}

// learnResult counts a group's result against its opponent, while that is a member or the bot.
func (r *Run) learnResult(seq rollout.GroupSeq, score *float64) {
	i := slices.IndexFunc(r.Playing, func(g Group) bool { return g.Seq == seq })
	if i < 0 || score == nil || r.Playing[i].Opponent == "" {
		return
	}
	player := r.Playing[i].Opponent
	if v, is := rollout.VersionOfPlayer(player); is && !slices.Contains(r.League.Members, v) {
		return
	}
	if r.League.Against == nil {
		r.League.Against = map[string]Against{}
	}
	a := r.League.Against[player]
	r.League.Against[player] = Against{a.Groups + 1, a.Score + *score}
}

// opposes reports whether a version plays against the learner, or will: a group needs exactly its opponent, until its
// games are over.
func (r *Run) opposes(v rollout.PolicyVersion) bool {
	return slices.Contains(r.League.Members, v) ||
		slices.ContainsFunc(r.Playing, func(g Group) bool { return g.Opponent == v.Player() })
}
