package calibration

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// trainer is the trainer's phases, as they were in the mean.
func (c *calibrator) trainer() {
	t := &c.setup.Trainer
	mean := map[steprecord.Phase]float64{}
	checkpoints, n := 0, float64(len(c.steps))
	for _, s := range c.steps {
		phases := s.StepPhases()
		for _, p := range steprecord.Phases() {
			mean[p] += phases[p] / n
		}
		if phases[steprecord.PhaseCheckpoint] > 0 {
			checkpoints++
		}
	}
	t.Load, t.RefLogprobs = duration(mean[steprecord.PhaseLoad]), duration(mean[steprecord.PhaseRefLogprobs])
	t.Train = duration(mean[steprecord.PhaseTrain] + mean[steprecord.PhaseOther])
	t.Publish = duration(mean[steprecord.PhasePublish])
	if checkpoints > 0 {
		t.Every = max(1, len(c.steps)/checkpoints)
		t.Checkpoint = duration(mean[steprecord.PhaseCheckpoint] * n / float64(checkpoints))
		c.say("trainer.checkpoint", fmt.Sprintf("%v every %d steps", t.Checkpoint, t.Every), Measured,
			"mean of those written")
	}
	how := fmt.Sprintf("mean of %d steps; taken to be the same for batches of another size", len(c.steps))
	c.say("trainer.load", t.Load.String(), Measured, how)
	if t.RefLogprobs > rollout.Duration(time.Millisecond) {
		c.say("trainer.ref_logprobs", t.RefLogprobs.String(), Measured, how)
	}
	named := how
	if mean[steprecord.PhaseOther] > 0.001 {
		named += "; with what the trainer named otherwise"
	}
	c.say("trainer.train", t.Train.String(), Measured, named)
	c.say("trainer.publish", t.Publish.String(), Measured, how)
}

// overheads is what the service and the network added, where the record shows it: a group that waited for no engine
// shows how long its launch took, a batch that was waited for how long its claim took.
func (c *calibrator) overheads() {
	seen := c.observe()
	o := &c.setup.Overheads
	c.overhead("overheads.launch", &o.Launch, seen.launches, max(slices.Min(seen.anyLaunch), 0),
		"of groups that waited for no engine", "every group waited for engines; this is the shortest launch")
	c.overhead("overheads.commit", &o.Commit, seen.commits, 0.02, "from a group's last game",
		"the ends of games are not recorded")
	c.overhead("overheads.claim", &o.Claim, seen.claims, 0.02, "of batches that the trainer waited for",
		"the trainer waited for hardly any batch")
	c.overhead("overheads.phase", &o.Phase, seen.phases, 0.005, "of games that waited for no engine",
		"every game waited for engines, which hides it")
}

// overhead is the median of what was seen, or something else where that is too little.
func (c *calibrator) overhead(
	name string, to *rollout.Duration, seen []float64, otherwise float64, how, lacking string,
) {
	const enough = 3
	if len(seen) < enough {
		*to = duration(otherwise)
		c.say(name, to.String(), Assumed, lacking)
		return
	}
	*to = duration(max(stat.Median(seen), 0))
	c.say(name, to.String(), Measured, fmt.Sprintf("%s; median of %d", how, len(seen)))
}

// observed is seconds that show an overhead each.
type observed struct{ launches, anyLaunch, commits, claims, phases []float64 }

func (c *calibrator) observe() observed {
	ends := map[rollout.GroupSeq]time.Time{} // of a group's last game
	for _, e := range c.record.Events {
		if body, ok := e.Body.(telemetry.EpisodeFinished); ok && e.At.After(ends[body.Ref.Seq]) {
			ends[body.Ref.Seq] = e.At
		}
	}
	var o observed
	first := c.steps[0].Service.GrantedAt
	for _, s := range c.steps {
		var ready time.Time
		for _, g := range s.Service.Groups {
			if g.Times.ReadyAt.After(ready) {
				ready = g.Times.ReadyAt
			}
			launch := g.Times.StartedAt.Sub(g.Times.LaunchedAt).Seconds()
			o.anyLaunch = append(o.anyLaunch, launch)
			if end, known := ends[g.Seq]; known {
				o.commits = append(o.commits, g.Times.ReadyAt.Sub(end).Seconds())
			}
			if !hardlyQueued(g.Usage) {
				continue
			}
			if g.Times.LaunchedAt.After(first) { // the prefill launches many at once
				o.launches = append(o.launches, launch-firstEnv(g))
			}
			o.phases = append(o.phases, phaseOverheads(g)...)
		}
		if s.Service.FirstAskedAt.Before(ready) && s.Service.GrantedAt.After(ready) {
			o.claims = append(o.claims, s.Service.GrantedAt.Sub(ready).Seconds())
		}
	}
	return o
}

// phaseOverheads is what the phases of each of a group's games took beside their requests and the environment.
func phaseOverheads(g steprecord.GroupView) []float64 {
	var all []float64
	for i, n := range g.Phases {
		if n > 0 && i < min(len(g.EpisodeSec), len(g.ModelSec), len(g.EnvSec), len(g.QueueSec)) {
			rest := g.EpisodeSec[i] - g.ModelSec[i] - g.EnvSec[i] - g.QueueSec[i]
			all = append(all, (rest+g.EnvSec[i]/float64(2*n))/float64(n)) // an episode begins with its first request
		}
	}
	return all
}

// firstEnv is the environment's time before a game's first request: half of a phase's.
func firstEnv(g steprecord.GroupView) float64 {
	env, phases := 0.0, 0
	for i := range min(len(g.EnvSec), len(g.Phases)) {
		env, phases = env+g.EnvSec[i], phases+g.Phases[i]
	}
	return env / float64(max(2*phases, 1))
}

// hardlyQueued reports whether requests hardly waited for an engine.
func hardlyQueued(u rollout.Usage) bool {
	const hardly = 0.05 // of the time at engines
	return u.Requests > 0 && u.QueueSec < hardly*u.ExecSec
}

func duration(sec float64) rollout.Duration { return rollout.Duration(seconds(sec)) }
