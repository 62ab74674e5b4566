package pack

import (
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

func (w *writer) group(g *rollout.Group) {
	w.name(string(g.Ref.Run))
	w.int(int64(g.Ref.Seq))
	w.int(int64(g.MinVersion))
	w.int(int64(g.MaxVersion))
	w.int(int64(g.Samples))
	w.int(int64(g.Failed))
	w.time(g.Times.LaunchedAt)
	w.time(g.Times.StartedAt)
	w.time(g.Times.ReadyAt)
	w.usage(g.Usage)
	w.floats(g.EpisodeSec)
	w.floats(g.ModelSec)
	w.floats(g.QueueSec)
	w.floats(g.EnvSec)
	w.ints(g.Phases)
	w.trajectories(g.Ref, g.Trajectories)
	w.timings(g.Trajectories)
}

func (r *reader) group() *rollout.Group {
	g := &rollout.Group{}
	g.Ref.Run = rollout.RunName(r.name())
	g.Ref.Seq = rollout.GroupSeq(r.int())
	g.MinVersion = rollout.PolicyVersion(r.int())
	g.MaxVersion = rollout.PolicyVersion(r.int())
	g.Samples = int(r.int())
	g.Failed = int(r.int())
	g.Times.LaunchedAt = r.time()
	g.Times.StartedAt = r.time()
	g.Times.ReadyAt = r.time()
	g.Usage = r.usage()
	g.EpisodeSec = r.floats()
	g.ModelSec = r.floats()
	g.QueueSec = r.floats()
	g.EnvSec = r.floats()
	g.Phases = r.ints()
	g.Trajectories = r.trajectories(g.Ref)
	r.timings(g.Trajectories)
	return g
}

func (w *writer) episode(e *rollout.Episode) {
	w.episodeHead(e)
	w.trajectories(e.Ref.GroupRef, e.Trajectories)
	w.timings(e.Trajectories)
}

// episodeHead writes all of an episode but its trajectories.
func (w *writer) episodeHead(e *rollout.Episode) {
	w.name(string(e.Ref.Run))
	w.int(int64(e.Ref.Seq))
	w.int(int64(e.Ref.Sample))
	w.int(int64(e.Phases))
	w.bool(e.Truncated)
	w.time(e.StartedAt)
	w.time(e.FinishedAt)
	w.float(e.EnvSec)
	w.float(e.ModelSec)
	w.float(e.QueueSec)
	w.usage(e.Usage)
	w.int(int64(e.Attempts))
	counts := e.Counts
	if e.Order != "" {
		counts = maps.Clone(counts)
		if counts == nil {
			counts = map[string]int64{}
		}
		counts[orderCount+string(e.Order)] = 1
	}
	w.counts(counts)
}

// orderCount begins the name, among an episode's counts, that is its order: records that were written before there were
// orders are read as ever.
const orderCount = "order: "

func (r *reader) episode() rollout.Episode {
	e := r.episodeHead()
	e.Trajectories = r.trajectories(e.Ref.GroupRef)
	r.timings(e.Trajectories)
	return e
}

func (r *reader) episodeHead() rollout.Episode {
	var e rollout.Episode
	e.Ref.Run = rollout.RunName(r.name())
	e.Ref.Seq = rollout.GroupSeq(r.int())
	e.Ref.Sample = int(r.int())
	e.Phases = int(r.int())
	e.Truncated = r.bool()
	e.StartedAt = r.time()
	e.FinishedAt = r.time()
	e.EnvSec = r.float()
	e.ModelSec = r.float()
	e.QueueSec = r.float()
	e.Usage = r.usage()
	e.Attempts = int(r.int())
	e.Counts = r.counts()
	for name := range e.Counts {
		if order, is := strings.CutPrefix(name, orderCount); is {
			e.Order = rollout.Order(order)
			delete(e.Counts, name)
		}
	}
	if len(e.Counts) == 0 {
		e.Counts = nil
	}
	return e
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

func (w *writer) usage(u rollout.Usage) {
	w.int(u.Requests)
	w.int(u.InputTokens)
	w.int(u.OutputTokens)
	w.int(u.CachedTokens)
	w.float(u.ExecSec)
	w.float(u.QueueSec)
	w.int(u.RepeatedTokens)
}

func (r *reader) usage() rollout.Usage {
	return rollout.Usage{
		Requests:       r.int(),
		InputTokens:    r.int(),
		OutputTokens:   r.int(),
		CachedTokens:   r.int(),
		ExecSec:        r.float(),
		QueueSec:       r.float(),
		RepeatedTokens: r.int(),
	}
}

// minTrajectory and minTurn are the fewest bytes that one can take in the plan column.
const (
	minTrajectory = 21
	minTurn       = 21
)

func (w *writer) trajectories(ref rollout.GroupRef, ts []rollout.Trajectory) {
	w.uint(uint64(len(ts)))
	for i := range ts {
		w.trajectory(ref, &ts[i])
	}
}

func (r *reader) trajectories(ref rollout.GroupRef) []rollout.Trajectory {
	ts := make([]rollout.Trajectory, r.count(minTrajectory))
	for i := range ts {
		r.trajectory(ref, &ts[i])
	}
	return ts
}

func (w *writer) trajectory(ref rollout.GroupRef, t *rollout.Trajectory) {
	w.int(int64(t.Sample))
	w.name(t.Agent)
	usual := t.ID == usualID(ref, t)
	w.bool(usual)
	if !usual {
		w.name(t.ID)
	}
	w.float(t.Reward)
	w.float(t.Advantage)
	w.bool(t.Truncated)
	w.uint(uint64(len(t.Turns)))
	w.history.start(t.Agent)
	for i := range t.Turns {
		w.turn(&t.Turns[i])
	}
}

func (r *reader) trajectory(ref rollout.GroupRef, t *rollout.Trajectory) {
	t.Sample = int(r.int())
	t.Agent = r.name()
	if r.bool() {
		t.ID = usualID(ref, t)
	} else {
		t.ID = r.name()
	}
	t.Reward = r.float()
	t.Advantage = r.float()
	t.Truncated = r.bool()
	t.Turns = make([]rollout.Turn, r.count(minTurn))
	r.history.start(t.Agent)
	for i := range t.Turns {
		r.turn(&t.Turns[i])
	}
}

// usualID is the id that a trajectory has unless somebody chose another.
func usualID(ref rollout.GroupRef, t *rollout.Trajectory) string {
	return rollout.EpisodeRef{GroupRef: ref, Sample: t.Sample}.TrajectoryID(t.Agent)
}

func (w *writer) turn(t *rollout.Turn) {
	w.name(t.Phase)
	w.int(int64(t.PolicyVersion))
	w.name(string(t.Engine))
	w.name(t.FinishReason)
	w.float(t.Reward)
	w.bytes([]byte(t.Text))
	w.prompt(t.PromptTokenIDs)
	w.completion(t.TokenIDs, t.Logprobs)
	w.constraint(&t.Constraint)
}

func (r *reader) turn(t *rollout.Turn) {
	t.Phase = r.name()
	t.PolicyVersion = rollout.PolicyVersion(r.int())
	t.Engine = rollout.EngineID(r.name())
	t.FinishReason = r.name()
	t.Reward = r.float()
	t.Text = string(r.bytes())
	t.PromptTokenIDs = r.prompt()
	t.TokenIDs, t.Logprobs = r.completion()
	t.Constraint = r.constraint()
}

// constraint writes what an answer was held to. Each text is written once in a record: games of a group share theirs
// until they part.
func (w *writer) constraint(c *rollout.Constraint) {
	w.name(string(c.Kind))
	w.name(c.Pattern)
	w.uint(uint64(len(c.Choices)))
	for _, choice := range c.Choices {
		w.name(choice)
	}
}

func (r *reader) constraint() rollout.Constraint {
	c := rollout.Constraint{Kind: rollout.ConstraintKind(r.name()), Pattern: r.name()}
	for range r.count(1) {
		c.Choices = append(c.Choices, r.name())
	}
	return c
}
