package diagnosis

import (
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/capacity"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// replayModel is the basis of a replay: the groups and steps as recorded, and after the record's end its last level
// over and over.
//
// A group is played from its launch with its recorded requests in flight, and is ready when it has been played to its
// end. All groups in play share the engines: the more requests an engine has in flight, the more slowly it answers
// each, by the curve fitted to the record. When engines or workers are full, groups are started in the order of their
// launch. The times of environment and hand-overs do not depend on the load.
type replayModel struct {
	groups    []replayGroup // in the order of launch
	groupLoop int           // first group of the last level; from the end on the groups repeat from here
	steps     []replayStep
	stepLoop  int // first step of the last level

	curve   capacity.Curve
	others  float64        // requests of other work in flight at each engine
	limit   float64        // requests of this run that an engine holds in flight at most
	places  float64        // games that the workers play at a time
	fixed   float64        // share of a group's time, played alone, that the engines' load does not change
	windows []engineWindow // how many engines there were, until when
	engines float64        // and from then on

	first int // groups ready when the first step may begin
	// stalenessLimit is the batches that staleness lets be outstanding beside the one being trained on; between steps
	// it is one more.
	stalenessLimit int
	byFinish       bool // batches take the groups that were ready first
	total          int  // groups launched in all; 0: no end
	from           rollout.Step
	// possible are other curves that the record allows, those of the most saturated and of the freest engines among them.
	possible []capacity.Curve
	// flat is the curve if engines that are saturated do no more beyond the loads that were seen; nil: they have room.
	flat *capacity.Curve
	// unmeasured: games spend their time outside of the engines, KV caches are nearly full, engines went, or loads of
	// adapters stop them: what more games at a time do then is in no record.
	unmeasured bool
	shrinking  bool    // prefix caches hold less of each game the more are played
	blurred    bool    // engines are saturated, and the record does not tell one from another: some may be idle
	unlike     bool    // engines work in a way that the replay does not know: they are short of adapter slots, or uneven
	undecided  bool    // the loads that were seen do not tell whether engines are saturated
	load       float64 // requests in flight at an engine, now
	doubt      float64 // of the curve, from 0 to 1
	stepSec    float64 // a step of the last level, as recorded
}

// replayGroup is one group, as if it were played alone.
type replayGroup struct {
	alone  float64 // seconds from its start to the end of its last game
	held   float64 // requests in flight meanwhile, on average
	games  float64 // places that it has at the workers meanwhile, on average
	before float64 // seconds from its launch to its start, with room for it
	after  float64 // seconds from the end of its last game until it is ready

	env     float64   // the part of alone outside of engines
	load    float64   // requests in flight at an engine while it was played
	lengths []float64 // of its games, as recorded, the shortest first
}

// replayStep is what one step brings with it.
type replayStep struct {
	compute  float64
	handover float64 // seconds between a batch that is ready and the trainer
	depth    int
	take     int // groups
}

const (
	// replayedGroups and replayedSteps bound the part of a record that is replayed: its end.
	replayedGroups = 4000
	replayedSteps  = 160
)

// newReplayModel is the record as a model; false when it does not hold what it takes.
func newReplayModel(m *measurements, reg *regime) (replayModel, bool) {
	steps := latestSteps(m.untilAsked())
	p := replayModel{
		stalenessLimit: m.stalenessLimit(), curve: reg.speed.Curve, limit: math.Inf(1), places: math.Inf(1),
		byFinish: m.in.Spec.Buffer.Order == runspec.FinishOrder, from: steps[0].no, stepSec: reg.StepSec,
		engines: max(1, m.fleet.engines), others: reg.slots.others() / max(1, m.fleet.engines),
	}
	p.possible = append([]capacity.Curve{reg.speed.Saturated, reg.speed.Free}, reg.speed.Others...)
	p.possible = slices.DeleteFunc(p.possible, func(c capacity.Curve) bool { return c == p.curve })
	p.flat = reg.speed.flatBeyond()
	p.load = reg.speed.Load
	p.undecided = reg.speed.Fit.Decided() && !reg.speed.Decided() // else its possible curves say so
	p.shrinking = reg.cachesShrink(m)
	p.unmeasured = p.shrinking || reg.memory.share > kvNearlyFull || m.outsideShare() > mostOutside ||
		m.fleet.engines < (1-moved)*mostEngines(m) || loadSecPerStep(m) >= minWaitShare*reg.StepSec
	p.blurred = reg.Resource == EngineSpeed && p.engines > 1 && len(engineSpeeds(m, m.present)) == 0
	uneven, _ := slowAlways(m, m.present)
	p.unlike = reg.Resource == AdapterSlots || len(uneven) > 0
	p.doubt = reg.speed.Doubt()
	presentFrom := m.steps[m.present[0]].no
	for i := range steps {
		v := steps[i].view()
		if steps[i].no < presentFrom {
			p.groupLoop += len(v.Groups)
			p.stepLoop++
		}
		if v.Depth < 1 || len(v.Groups) == 0 {
			return p, false
		}
		p.steps = append(p.steps, replayStep{compute: steps[i].compute(), handover: steps[i].handover(),
			depth: max(1, min(v.Depth, m.bytesLimit())), take: len(v.Groups)})
	}
	p.addGroups(m, reg, steps)
	p.addFleet(m, reg, steps)
	target := min(p.steps[0].depth, p.stalenessLimit+1) * p.steps[0].take
	p.first = target
	if first := &steps[0]; first.no == 0 || first.view().ReadyDepth > 0 {
		ready := int(math.Round(first.view().ReadyDepth * float64(p.steps[0].take)))
		p.first = max(p.steps[0].take, min(target, ready))
	}
	return p, p.groupLoop < len(p.groups) && p.stepLoop < len(p.steps)
}

// untilAsked is the recorded steps up to the last that is asked about. What was outstanding before the first of these
// follows from those before it.
func (m *measurements) untilAsked() []step {
	last := m.all[len(m.all)-1].no
	n := len(m.recorded)
	for n > 0 && m.recorded[n-1].no > last {
		n--
	}
	return m.recorded[:n]
}

// latestSteps is the end of the record that is replayed.
func latestSteps(all []step) []step {
	groups, from := 0, len(all)
	for from > 0 && groups < replayedGroups && len(all)-from < replayedSteps {
		from--
		groups += len(all[from].view().Groups)
	}
	return all[from:]
}

// addGroups splits the groups of the steps: their requests, their playing time, and the part of it that depends on the
// engines' load.
func (p *replayModel) addGroups(m *measurements, reg *regime, steps []step) {
	played := 1 + m.dropRate(m.present) // groups for each one trained on
	var fixed, alone float64
	for _, g := range groupsBySeq(steps) {
		one := reg.replayed(g, played)
		fixed += one.env
		alone += one.alone
		p.groups = append(p.groups, one)
	}
	if alone > 0 {
		p.fixed = min(1, fixed/alone)
	}
}

// replayed is a group as if it were played alone.
func (reg *regime) replayed(g *steprecord.GroupView, played float64) replayGroup {
	const instant = 1e-6
	one := replayGroup{load: reg.speed.load(g), lengths: slices.Sorted(slices.Values(g.EpisodeSec))}
	slow := reg.speed.Curve.Slowdown(one.load)
	sec := max(instant, reg.latency.played(g))
	model := sec
	if i := g.LongestEpisode(); i >= 0 && len(g.ModelSec) > i {
		model = min(sec, g.ModelSec[i])
	}
	one.env = sec - model
	one.alone = one.env + model/slow
	one.held = played * g.Usage.ExecSec / slow / one.alone
	one.games = max(1, played*gameSec(g)/sec)
	one.before, one.after = reg.latency.delays(g)
	return one
}

// addFleet is the engines over time, and how much they and the workers take at once.
func (p *replayModel) addFleet(m *measurements, reg *regime, steps []step) {
	if own := reg.slots.mayHold(); own > 0 && m.fleet.known {
		p.limit = own / p.engines
	}
	if reg.Resource == WorkerSlots {
		played := 1 + m.dropRate(m.present)
		p.places = max(1, played*m.mean(m.present, batchSum(gameSec))/reg.StepSec)
	}
	origin := firstLaunch(steps)
	for i := range steps {
		v := steps[i].view()
		end := units.SecondsBetween(origin, v.GrantedAt)
		if v.Fleet.Engines > 0 && end > 0 && m.fleet.engines > 0 {
			p.windows = append(p.windows, engineWindow{end, v.Fleet.Engines})
		}
	}
	last := &steps[len(steps)-1]
	if total := m.in.Spec.Steps; total > 0 && int(last.no)+last.view().Depth >= total {
		for i := range steps {
			p.total += len(steps[i].view().Groups)
		}
		p.total += max(0, total-1-int(last.no)) * p.steps[len(p.steps)-1].take
	}
}

func groupsBySeq(steps []step) []*steprecord.GroupView {
	var groups []*steprecord.GroupView
	for i := range steps {
		v := steps[i].view()
		for j := range v.Groups {
			groups = append(groups, &v.Groups[j])
		}
	}
	slices.SortStableFunc(groups, func(a, b *steprecord.GroupView) int { return int(a.Seq - b.Seq) })
	return groups
}

// firstLaunch is when the first of the groups was asked for: the replay's time 0.
func firstLaunch(steps []step) time.Time {
	var first time.Time
	for i := range steps {
		for _, g := range steps[i].view().Groups {
			if t := g.Times.LaunchedAt; !t.IsZero() && (first.IsZero() || t.Before(first)) {
				first = t
			}
		}
	}
	return first
}

// handover is the time between a batch that is ready and the trainer, beyond what it would have waited anyway: the
// claim itself, polling, and the answer's way.
func (s *step) handover() float64 {
	v := s.view()
	last := lastGroup(v.Groups)
	if s.wait() <= 0 || last == nil || last.Times.ReadyAt.IsZero() || v.GrantedAt.IsZero() || v.FirstAskedAt.IsZero() {
		return 0
	}
	seen := min(s.wait(), max(0, units.SecondsBetween(v.FirstAskedAt, v.GrantedAt)))
	ready := last.Times.ReadyAt
	if asked := v.GrantedAt.Add(-time.Duration(seen * float64(time.Second))); ready.Before(asked) {
		ready = asked
	}
	return max(0, s.wait()-seen+units.SecondsBetween(ready, v.GrantedAt))
}
