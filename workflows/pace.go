package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// What one run asks of Temporal at a time, so that however large it is, other runs' tasks are not far behind its
// own: a round of so many groups and games is launched, or cancelled, each roundEvery, and the games of the groups
// in play are bounded. How many groups make a round is learnt from how fast Temporal takes them: twice as many
// after a round that it took quickly, half as many after a slow one, for then others wait for it too.
const (
	roundEvery  = time.Second
	quickRound  = roundEvery / 4
	slowRound   = roundEvery / 2
	firstGroups = 16
	leastGroups = 8
	mostGroups  = 64
	mostRespite = 30 * time.Second
	roundGames  = 512
	maxPlaying  = 16_384 // games; one group at least
	maxChildren = 1_800  // of this execution; Temporal allows 2,000
)

// round is how many of so many groups make a round.
func (r *run) round(groups int) int {
	return min(groups, r.pace.most(), max(1, roundGames/r.games()))
}

// games is how many are started in a group.
func (s *runState) games() int { return max(1, s.Spec.Group.Samples+s.Spec.Group.Oversample) }

// admitted is how many of so many groups may be in play beside those that are.
func (s *runState) admitted(groups int) int {
	return max(0, min(groups, max(1, maxPlaying/s.games())-len(s.Playing)))
}

// pace counts what was launched in the round under way, and knows how many groups a round may have. The zero value has
// launched nothing.
type pace struct {
	began  time.Time
	groups int
	games  int
	limit  int // groups in a round; 0: firstGroups
}

// most is how many groups a round may have.
func (p pace) most() int {
	if p.limit == 0 {
		return firstGroups
	}
	return p.limit
}

// took learns from how long Temporal needed for what was asked of it at once. A part of a round says nothing when
// it was quick.
func (p *pace) took(d time.Duration, groups int) {
	switch {
	case d > slowRound:
		p.limit = max(leastGroups, p.most()/2)
	case d < quickRound && groups >= p.most():
		p.limit = min(mostGroups, 2*p.most())
	}
}

// left is how many groups of so many games the round still has room for, one at least when nothing was launched in it,
// and when the next one begins.
func (p pace) left(now time.Time, games int) (groups int, next time.Time) {
	if now.Sub(p.began) >= roundEvery {
		p = pace{began: now, limit: p.limit}
	}
	groups = min(p.most()-p.groups, (roundGames-p.games)/games)
	if p.groups == 0 {
		groups = max(groups, 1)
	}
	return max(groups, 0), p.began.Add(roundEvery)
}

// launched counts groups of so many games.
func (p *pace) launched(now time.Time, groups, games int) {
	if now.Sub(p.began) >= roundEvery {
		*p = pace{began: now, limit: p.limit}
	}
	p.groups, p.games = p.groups+groups, p.games+groups*games
}

// failed counts groups that failed since one did not. Groups that somebody let go of say nothing.
func (s *runState) failed(code string) {
	switch code {
	case "", activities.ZeroVariance:
		s.Failing = 0
	case activities.Shrunk, activities.Stale, cancelled, vanished:
	default:
		s.Failing++
	}
}

// respite is how long a run waits between rounds whose groups all fail: a second after a whole buffer of them, and twice
// as long after each further one. What such a run asks of Temporal, workers and engines is taken from others for nothing.
func (s *runState) respite() time.Duration {
	buffers := s.Failing / max(1, s.Spec.Buffer.Outstanding())
	if buffers == 0 {
		return 0
	}
	return min(mostRespite, time.Second<<min(buffers-1, 10))
}

// due is how many groups to start now, and how long to wait until there may be more.
func (r *run) due(ctx workflow.Context) (groups int, wait time.Duration) {
	groups = r.launches()
	if !r.paced || groups == 0 {
		return groups, auditEvery
	}
	now := workflow.Now(ctx)
	left, next := r.pace.left(now, r.games())
	if rested := r.pace.began.Add(r.respite()); r.rests && rested.After(now) {
		return 0, min(rested.Sub(now), auditEvery)
	}
	return min(groups, left, max(0, maxChildren-len(r.watched))), max(next.Sub(now), time.Millisecond)
}

// cancelGroups cancels the games of groups in rounds; groups that are over hear nothing.
func (r *run) cancelGroups(ctx workflow.Context, seqs []rollout.GroupSeq) {
	for len(seqs) > 0 {
		n := r.round(len(seqs))
		asked, began := make([]workflow.Future, n), workflow.Now(ctx)
		for i, seq := range seqs[:n] {
			id := r.ids.GroupID(rollout.GroupRef{Run: r.Spec.Name, Seq: seq})
			asked[i] = workflow.RequestCancelExternalWorkflow(ctx, id, "")
		}
		for i, future := range asked {
			if err := future.Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Info("group already over", "group", seqs[i], "error", err)
			}
		}
		r.pace.took(workflow.Now(ctx).Sub(began), n)
		if seqs = seqs[n:]; len(seqs) > 0 {
			_ = workflow.Sleep(ctx, roundEvery) // cancelled is none the less to be cancelled
		}
	}
}

// cancelMeanwhile cancels groups while the run goes on, whose history is not cut before that is done.
func (r *run) cancelMeanwhile(ctx workflow.Context, seqs []rollout.GroupSeq) {
	if len(seqs) == 0 {
		return
	}
	r.cancelling++
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { r.cancelling-- }()
		r.cancelGroups(ctx, seqs)
	})
}

func seqsOf(groups []playing) []rollout.GroupSeq {
	seqs := make([]rollout.GroupSeq, len(groups))
	for i, p := range groups {
		seqs[i] = p.Seq
	}
	return seqs
}
