package runmachine

import "time"

// What one run asks of Temporal at a time, so that however large it is, other runs' tasks are not far behind its
// own: a round of so many groups and games is launched, or cancelled, each RoundEvery, and the games of the groups
// in play are bounded. How many groups make a round is learnt from how fast Temporal takes them: twice as many
// after a round that it took quickly, half as many after a slow one, for then others wait for it too.
const (
	RoundEvery  = time.Second
	quickRound  = RoundEvery / 4
	slowRound   = RoundEvery / 2
	firstGroups = 16
	leastGroups = 8
	mostGroups  = 64
	mostBackoff = 30 * time.Second
	roundGames  = 512
	maxPlaying  = 16_384 // games; one group at least
	maxChildren = 1_800  // of this execution; Temporal allows 2,000
)

// games is how many are started in a group.
func (r *Run) games() int { return max(1, r.Spec.Group.Samples+r.Spec.Group.Oversample) }

// admitted is how many of so many groups may be in play beside those that are.
func (r *Run) admitted(groups int) int {
	return max(0, min(groups, max(1, maxPlaying/r.games())-len(r.Playing)))
}

// CancelRound is how many of so many groups are cancelled at once.
func (m *Machine) CancelRound(groups int) int {
	return min(groups, m.rounds.most(), max(1, roundGames/m.games()))
}

// CancelledRound learns from how long Temporal needed to cancel so many groups.
func (m *Machine) CancelledRound(d time.Duration, groups int) { m.rounds.took(d, groups) }

// rounds counts what was launched in the round under way, and knows how many groups a round may have. The zero value
// has launched nothing.
type rounds struct {
	began  time.Time
	groups int
	games  int
	limit  int // groups in a round; 0: firstGroups
}

// most is how many groups a round may have.
func (p rounds) most() int {
	if p.limit == 0 {
		return firstGroups
	}
	return p.limit
}

// took learns from how long Temporal needed for a round. A partial round that was quick proves nothing.
func (p *rounds) took(d time.Duration, groups int) {
	switch {
	case d > slowRound:
		p.limit = max(leastGroups, p.most()/2)
	case d < quickRound && groups >= p.most():
		p.limit = min(mostGroups, 2*p.most())
	}
}

// left is how many groups of so many games the round still has room for, one at least when nothing was launched in it,
// and when the next one begins.
func (p rounds) left(now time.Time, games int) (groups int, next time.Time) {
	if now.Sub(p.began) >= RoundEvery {
		p = rounds{began: now, limit: p.limit}
	}
	groups = min(p.most()-p.groups, (roundGames-p.games)/games)
	if p.groups == 0 {
		groups = max(groups, 1)
	}
	return max(groups, 0), p.began.Add(RoundEvery)
}

// launched counts groups of so many games.
func (p *rounds) launched(now time.Time, groups, games int) {
	if now.Sub(p.began) >= RoundEvery {
		*p = rounds{began: now, limit: p.limit}
	}
	p.groups, p.games = p.groups+groups, p.games+groups*games
}
