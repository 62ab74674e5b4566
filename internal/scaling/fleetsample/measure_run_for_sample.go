package fleetsample

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
)

// runLook is the change of a run since the last sample.
type runLook struct {
	status runstatus.RunStatus
	counts steprecord.BufferCounts
	next   rollout.Step // first that is not completed
	// asked is when the trainer asked first for the first step that is not granted, and last when it asked last.
	asked, last time.Time
	steps       []steprecord.StepRecord // granted, from the first on that was not completed
	groups      []steprecord.GroupView  // that became ready
	after       string
}

// claimsKept is of how many batches the share of dropped groups is.
const claimsKept = 5

// learn takes in what is new. Of their time at engines, requests have waited such a share.
func (r *runLook) learn(known *runMemory, waited float64) {
	spec := &r.status.Spec
	first := known.After == ""
	known.After = r.after
	known.Terms.GroupsPerStep, known.Terms.Depth = spec.Buffer.GroupsPerStep, r.depth()
	if r.next < known.Next { // Redis came back older than it was
		known.Claims = nil
	}
	for i := range r.steps {
		record := &r.steps[i]
		known.claimed(record)
		if first {
			for j := range record.Service.Groups {
				known.Terms.GroupReady(unwaited(&record.Service.Groups[j], waited))
			}
		}
		if record.Done && record.Step < r.next && (first || record.Step >= known.Next) && record.Trainer.WallSec > 0 {
			// A publication without a serving engine waits for one: that is no compute of the trainer's.
			if slept := known.Unserved.After(record.Service.GrantedAt); !slept || len(known.Terms.Compute) == 0 {
				known.Terms.StepDone(max(0, record.Trainer.WallSec-record.Trainer.Phases[steprecord.PhaseWait]))
			}
			known.LastEnd = record.Service.CompletedAt
		}
	}
	for i := range r.groups {
		known.Terms.GroupReady(unwaited(&r.groups[i], waited))
	}
	known.Next = r.next
}

// unwaited is a group without the time that its requests have waited inside of engines: more engines shorten that.
func unwaited(g *steprecord.GroupView, share float64) *steprecord.GroupView {
	if share <= 0 {
		return g
	}
	own := *g
	own.EpisodeSec, own.ModelSec = slices.Clone(g.EpisodeSec), slices.Clone(g.ModelSec)
	for i := range own.ModelSec {
		waited := share * own.ModelSec[i]
		own.ModelSec[i] -= waited
		if i < len(own.EpisodeSec) {
			own.EpisodeSec[i] -= waited
		}
	}
	return &own
}

// depth is the batches that the run may really have outstanding.
func (r *runLook) depth() int {
	b := &r.status.Spec.Buffer
	return max(1, min(b.Depth, b.AdmittedSteps(1)))
}

// claimed notes a batch once.
func (k *runMemory) claimed(r *steprecord.StepRecord) {
	if n := len(k.Claims); n > 0 && k.Claims[n-1].Step >= r.Step || r.LostBatch {
		return
	}
	k.Claims = append(k.Claims, claim{r.Step, len(r.Service.Groups), r.Service.AtClaim.Dropped})
	if n := len(k.Claims); n > claimsKept {
		k.Claims = append(k.Claims[:0], k.Claims[n-claimsKept:]...)
	}
}

// dropRate is the number of dropped groups for each trained one: engines play these, too. Between two batches, at most
// as many count as can be outstanding, because a Redis that came back empty drops all it lost at once.
func (k *runMemory) dropRate() float64 {
	if len(k.Claims) < 2 {
		return 0
	}
	most := int64(max(1, k.Terms.Depth) * max(1, k.Terms.GroupsPerStep))
	trained, dropped := 0, int64(0)
	for i, c := range k.Claims[1:] {
		trained += c.Groups
		dropped += min(max(0, c.Dropped-k.Claims[i].Dropped), most)
	}
	return float64(dropped) / float64(max(1, trained))
}

// run is the run's part of the sample. Its work is given for at least one engine, so that it stays known while none
// serves.
func (l *look) run(r *runLook, known *runMemory, m *memory) scaling.Run {
	spec := &r.status.Spec
	engines := float64(max(1, l.serving(spec.Model)))
	model := m.Models[spec.Model]
	c, p, rd := known.Terms.Terms(engines, model.Rate.Rate())
	if m.Curve != nil && m.Curve.Rise(l.load()) < 0.5 {
		// Games are slow because engines are full, and not the other way round. Those that wait were taken out before.
		rd /= m.Curve.Slowdown(l.load() * (1 - model.waitShare()))
	}
	run := scaling.Run{
		Name: spec.Name, Paused: r.status.State == runstatus.RunPaused,
		Priority: spec.Priority, MaxEngines: spec.MaxEngines,
		C: c, P: p * (1 + known.dropRate()), RD: rd, Engines: engines, Depth: known.Terms.Depth,
		Batch: known.Terms.Batch() * (1 + known.dropRate()),
		Steps: int(r.next), LastEnd: known.LastEnd, Waits: r.waits(l.now),
		ReadyDepth: float64(r.counts.Ready) / float64(max(1, spec.Buffer.GroupsPerStep)),
	}
	if !m.At.IsZero() {
		run.StarvedSec = r.waited(m.At, l.now)
	}
	return run
}

// silence is how long a trainer that asks again about once a second may be silent and still be waiting.
const silence = 10 * time.Second

// waits reports whether the trainer waits for a batch now.
func (r *runLook) waits(now time.Time) bool {
	return !r.asked.IsZero() && (r.last.IsZero() || now.Sub(r.last) <= silence)
}

// waited is how long the trainer waited in a window, for batches that it was given and for the next one.
func (r *runLook) waited(from, to time.Time) float64 {
	sum := 0.0
	add := func(began, ended time.Time) {
		if began.Before(from) {
			began = from
		}
		if ended.After(to) {
			ended = to
		}
		sum += max(0, ended.Sub(began).Seconds())
	}
	for i := range r.steps {
		if v := &r.steps[i].Service; !v.FirstAskedAt.IsZero() && !v.GrantedAt.IsZero() {
			add(v.FirstAskedAt, v.GrantedAt)
		}
	}
	if r.waits(to) {
		add(r.asked, to)
	}
	return min(sum, max(0, to.Sub(from).Seconds()))
}
