package pack

import (
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

func (c codec) group(g *rollout.Group) {
	name(c, &g.Ref.Run)
	integer(c, &g.Ref.Seq)
	integer(c, &g.MinVersion)
	integer(c, &g.MaxVersion)
	integer(c, &g.Samples)
	integer(c, &g.Failed)
	c.time(&g.Times.LaunchedAt)
	c.time(&g.Times.StartedAt)
	c.time(&g.Times.ReadyAt)
	c.usage(&g.Usage)
	c.floats(&g.EpisodeSec)
	c.floats(&g.ModelSec)
	c.floats(&g.QueueSec)
	c.floats(&g.EnvSec)
	c.ints(&g.Phases)
	c.trajectories(g.Ref, &g.Trajectories)
	c.timings(g.Trajectories)
}

func (c codec) episode(e *rollout.Episode) {
	c.episodeHead(e)
	c.trajectories(e.Ref.GroupRef, &e.Trajectories)
	c.timings(e.Trajectories)
}

// episodeHead is all of an episode but its trajectories.
func (c codec) episodeHead(e *rollout.Episode) {
	name(c, &e.Ref.Run)
	integer(c, &e.Ref.Seq)
	integer(c, &e.Ref.Sample)
	integer(c, &e.Phases)
	c.bool(&e.Truncated)
	c.time(&e.StartedAt)
	c.time(&e.FinishedAt)
	c.float(&e.EnvSec)
	c.float(&e.ModelSec)
	c.float(&e.QueueSec)
	c.usage(&e.Usage)
	integer(c, &e.Attempts)
	if c.w != nil {
		c.w.counts(countsWithOrder(e))
	} else {
		e.Counts, e.Order = countsAndOrder(c.r.counts())
	}
}

// orderCount begins the name, among an episode's counts, that is its order: records that were written before there were
// orders are read as ever.
const orderCount = "order: "

func countsWithOrder(e *rollout.Episode) map[string]int64 {
	if e.Order == "" {
		return e.Counts
	}
	counts := map[string]int64{orderCount + string(e.Order): 1}
	maps.Copy(counts, e.Counts)
	return counts
}

func countsAndOrder(counts map[string]int64) (map[string]int64, rollout.Order) {
	for name := range counts {
		if order, is := strings.CutPrefix(name, orderCount); is {
			delete(counts, name)
			if len(counts) == 0 {
				counts = nil
			}
			return counts, rollout.Order(order)
		}
	}
	return counts, ""
}

// minCount is the fewest bytes that a named count can take.
const minCount = 2

func (w *writer) counts(counts map[string]int64) {
	w.uint(uint64(len(counts)))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		w.name(name)
		w.int(counts[name])
	}
}

func (r *reader) counts() map[string]int64 {
	n := r.count(minCount)
	if n == 0 {
		return nil
	}
	counts := make(map[string]int64, n)
	for range n {
		name := r.name()
		counts[name] = r.int()
	}
	return counts
}

func (c codec) usage(u *rollout.Usage) {
	integer(c, &u.Requests)
	integer(c, &u.InputTokens)
	integer(c, &u.OutputTokens)
	integer(c, &u.CachedTokens)
	c.float(&u.ExecSec)
	c.float(&u.QueueSec)
	integer(c, &u.RepeatedTokens)
}

// minTrajectory and minTurn are the fewest bytes that one can take in the plan column.
const (
	minTrajectory = 21
	minTurn       = 21
)

func (c codec) trajectories(ref rollout.GroupRef, ts *[]rollout.Trajectory) {
	all := elements(c, ts, minTrajectory)
	for i := range all {
		c.trajectory(ref, &all[i])
	}
}

func (c codec) trajectory(ref rollout.GroupRef, t *rollout.Trajectory) {
	integer(c, &t.Sample)
	name(c, &t.Agent)
	usual := t.ID == usualID(ref, t)
	switch c.bool(&usual); {
	case !usual:
		name(c, &t.ID)
	case c.r != nil:
		t.ID = usualID(ref, t)
	}
	c.float(&t.Reward)
	c.float(&t.Advantage)
	c.bool(&t.Truncated)
	turns := elements(c, &t.Turns, minTurn)
	c.history().start(t.Agent)
	for i := range turns {
		c.turn(&turns[i])
	}
}

// usualID is the id that a trajectory has unless somebody chose another.
func usualID(ref rollout.GroupRef, t *rollout.Trajectory) string {
	return rollout.EpisodeRef{GroupRef: ref, Sample: t.Sample}.TrajectoryID(t.Agent)
}

func (c codec) turn(t *rollout.Turn) {
	name(c, &t.Phase)
	integer(c, &t.PolicyVersion)
	name(c, &t.Engine)
	name(c, &t.FinishReason)
	c.float(&t.Reward)
	text(c, &t.Text)
	c.prompt(&t.PromptTokenIDs)
	c.completion(&t.TokenIDs, &t.Logprobs)
	c.constraint(&t.Constraint)
}

// constraint is what an answer was held to. Each text is written once in a record: games of a group share theirs until
// they part.
func (c codec) constraint(of *rollout.Constraint) {
	name(c, &of.Kind)
	name(c, &of.Pattern)
	choices := optional(c, &of.Choices, 1)
	for i := range choices {
		name(c, &choices[i])
	}
}
