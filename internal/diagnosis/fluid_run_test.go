package diagnosis_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// simRun is a trainer and a fleet, simulated group by group: groups are put on places in the order
// of their launch, a place plays one group at a time. It shares nothing with the replay of the
// package, which works on the fleet as a whole.
type simRun struct {
	compute   float64 // seconds of a step without waiting
	groups    int     // per step
	depth     int
	engines   int
	places    float64 // groups that an engine plays at a time
	group     float64 // seconds to play a group on its place
	steps     int
	noise     float64 // coefficient of variation of every duration
	seed      uint64
	prefill   int                      // batches before the first step; 0: all
	cold      func(engine int) float64 // when an engine is ready
	load      float64                  // seconds of adapter loading before each group
	workers   int                      // groups that the workers play at a time; 0: any number
	noFleet   bool                     // no engine samples
	speed     float64                  // divides every duration; 0: 1
	slowdown  func(step int) float64   // factor on a step's compute
	straggler float64                  // factor on one group of every batch
	lost      func(engine int) float64 // when an engine is lost
	growth    func(group int) float64  // factor on a group's games
	otherRuns float64                  // requests of other runs in flight for each of this run's
	bounded   bool                     // staleness is bounded at admission, by
	stale     int
	fits      int // groups outstanding that there are bytes for; 0: any number
}

// width is the requests a group holds in flight: 7 powers x 6 samples.
const width = 42

var startOfRun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(sec float64) time.Time { return startOfRun.Add(time.Duration(sec * float64(time.Second))) }

// played is a group on its way.
type played struct {
	seq                      int
	launched, started, ready float64
	loaded                   float64 // when its adapter was; started once playing began
	engine                   int
	taken                    bool
	growth                   float64 // of its games, in requests
}

type simState struct {
	simRun
	rng    *rand.Rand
	free   [][]float64 // by engine and place: when it is free
	worker []float64   // by place at the workers
	all    []played
	loads  []diagnosis.AdapterLoad
}

// input plays the run and writes down what the service would have recorded.
func (m simRun) input() diagnosis.Input {
	in, _ := m.play()
	return in
}

func (m simRun) play() (diagnosis.Input, []float64) {
	if m.speed == 0 {
		m.speed = 1
	}
	s := simState{simRun: m, rng: rand.New(rand.NewPCG(m.seed, 99))}
	s.build()
	s.launch(0, m.room(0))
	var records []steprecord.StepRecord
	var walls []float64
	end, granted := 0.0, 0.0
	prefill := min(cmp.Or(m.prefill, m.depth)*m.groups, m.room(0))
	for k := range m.steps {
		start := max(end, s.readyTime(m.groups))
		if k == 0 {
			start = s.readyTime(prefill)
		}
		record := s.record(k, end, start)
		batch := s.take(start)
		s.launch(start, m.room(1)-s.outstanding())
		compute := s.vary(s.compute)
		if s.slowdown != nil {
			compute *= s.slowdown(k)
		}
		s.fill(&record, batch, end, granted, start, compute)
		records = append(records, record)
		wall := start - end + compute
		if k == 0 {
			wall = compute
		}
		walls = append(walls, wall)
		end, granted = start+compute, start
		s.launch(end, m.room(0)-s.outstanding())
	}
	spec := runspec.Spec{Name: "seed-004", Steps: m.steps, Buffer: runspec.BufferSpec{
		Depth: m.depth, GroupsPerStep: m.groups, MaxStaleness: 4}}
	if m.bounded {
		spec.Buffer.MaxStaleness = int64(m.stale)
	}
	throttle := runstatus.Throttle("")
	if m.fits > 0 {
		spec.Buffer.MaxBytes, throttle = 1<<30, runstatus.ThrottleBytes
	}
	loads := s.loads
	if loads == nil {
		loads = []diagnosis.AdapterLoad{}
	}
	return diagnosis.Input{Spec: spec, Records: records, Loads: loads, Throttle: throttle}, walls
}

// room is how many groups may be outstanding while so many steps are claimed and not completed.
func (m simRun) room(ahead int) int {
	groups := m.depth * m.groups
	if m.bounded {
		groups = min(groups, max(0, m.stale+1-ahead)*m.groups)
	}
	if m.fits > 0 {
		groups = min(groups, m.fits)
	}
	return groups
}

func (s *simState) outstanding() int {
	n := 0
	for _, g := range s.all {
		if !g.taken {
			n++
		}
	}
	return n
}

func (s *simState) build() {
	s.compute, s.group, s.load = s.compute/s.speed, s.group/s.speed, s.load/s.speed
	for e := range s.engines {
		ready := 0.0
		if s.cold != nil {
			ready = s.cold(e) / s.speed
		}
		// A fleet may have fewer places than engines: a group is then spread over several.
		count := int(s.places*float64(e+1)) - int(s.places*float64(e))
		s.free = append(s.free, slices.Repeat([]float64{ready}, count))
	}
	s.worker = make([]float64, s.workers)
}

func (s *simState) vary(sec float64) float64 {
	if s.noise == 0 {
		return sec
	}
	return sec * math.Exp(s.noise*s.rng.NormFloat64())
}

func (s *simState) launch(now float64, count int) {
	for range count {
		g := played{seq: len(s.all), launched: now}
		at := now
		var worker *float64
		if len(s.worker) > 0 {
			worker = &s.worker[slices.Index(s.worker, slices.Min(s.worker))]
			at = max(at, *worker)
		}
		e, p := s.earliest()
		g.engine = e
		g.loaded = max(at, s.free[e][p]) + s.load
		g.started = g.loaded
		play := s.vary(s.group)
		g.growth = 1
		if s.growth != nil {
			g.growth = s.growth(g.seq)
			play *= g.growth
		}
		if s.straggler > 0 && g.seq%s.groups == s.groups/2 {
			play *= s.straggler
		}
		g.ready = g.started + play
		s.free[e][p] = g.ready
		if s.lost != nil && g.ready > s.lost(e)/s.speed {
			s.free[e][p] = math.Inf(1)
		}
		if worker != nil {
			*worker = g.ready
		}
		if s.load > 0 {
			s.loads = append(s.loads, diagnosis.AdapterLoad{At: after(g.loaded), Engine: "e", Sec: s.load})
		}
		s.all = append(s.all, g)
	}
}

func (s *simState) earliest() (engine, place int) {
	best := math.Inf(1)
	for e := range s.free {
		for p, at := range s.free[e] {
			if at < best {
				best, engine, place = at, e, p
			}
		}
	}
	return engine, place
}

// readyTime is when n groups that nobody took are ready.
func (s *simState) readyTime(n int) float64 {
	var times []float64
	for _, g := range s.all {
		if !g.taken {
			times = append(times, g.ready)
		}
	}
	slices.Sort(times)
	return times[n-1]
}

func (s *simState) take(now float64) []*played {
	var batch []*played
	for i := range s.all {
		if g := &s.all[i]; !g.taken && g.ready <= now && len(batch) < s.groups {
			g.taken = true
			batch = append(batch, g)
		}
	}
	return batch
}

// record is what the service sees just before the batch is taken.
func (s *simState) record(k int, asked, now float64) steprecord.StepRecord {
	var counts steprecord.BufferCounts
	for _, g := range s.all {
		switch {
		case g.taken:
			counts.Completed++
		case g.ready <= now:
			counts.Ready++
		case g.started <= now:
			counts.InFlight++
		default:
			counts.Queued++
		}
	}
	r := steprecord.StepRecord{Step: rollout.Step(k), Generation: 1, Done: true}
	r.Service = steprecord.ServiceView{
		FirstAskedAt: after(asked), GrantedAt: after(now), AtClaim: counts,
		ReadyDepth: float64(counts.Ready) / float64(s.groups), Depth: s.depth, GroupsPerStep: s.groups,
	}
	return r
}

func (s *simState) fill(r *steprecord.StepRecord, batch []*played, asked, windowFrom, now, compute float64) {
	wait := now - asked
	r.Trainer = steprecord.StepReport{WallSec: wait + compute, Phases: map[steprecord.Phase]float64{
		steprecord.PhaseWait: wait, steprecord.PhaseLoad: 0.02 * compute, steprecord.PhaseRefLogprobs: 0.33 * compute,
		steprecord.PhaseTrain: 0.60 * compute, steprecord.PhasePublish: 0.05 * compute,
	}}
	r.Service.CompletedAt = after(now + compute)
	for _, g := range batch {
		sec := g.ready - g.started
		same := slices.Repeat([]float64{sec}, 6)
		r.Service.Groups = append(r.Service.Groups, steprecord.GroupView{
			Seq:   rollout.GroupSeq(g.seq),
			Times: rollout.GroupTimes{LaunchedAt: after(g.launched), StartedAt: after(g.started), ReadyAt: after(g.ready)},
			Usage: rollout.Usage{Requests: int64(width * 10 * g.growth), ExecSec: 0.98 * sec * width}, EpisodeSec: same,
			ModelSec: slices.Repeat([]float64{0.98 * sec}, 6), QueueSec: make([]float64, 6),
			EnvSec: slices.Repeat([]float64{0.02 * sec}, 6),
		})
	}
	if !s.noFleet {
		r.Service.Fleet = s.fleet(windowFrom, now)
	}
}

// fleet is the engines between two times.
func (s *simState) fleet(from, to float64) steprecord.FleetView {
	up := 0.0
	for e := range s.engines {
		begin, end := from, to
		if s.cold != nil {
			begin = max(from, s.cold(e)/s.speed)
		}
		if s.lost != nil {
			end = min(to, s.lost(e)/s.speed)
		}
		up += max(0, end-begin)
	}
	held, waiting, busy := 0.0, 0.0, 0.0
	for _, g := range s.all {
		held += 0.98 * width * overlap(g.started, g.ready, from, to)
		busy += overlap(g.started, g.ready, from, to) / max(1, s.places)
		if s.workers == 0 {
			waiting += width * overlap(g.launched, g.started, from, to)
		}
	}
	held += s.otherRuns * held
	return steprecord.FleetView{
		WindowSec: to - from, Engines: up / (to - from), BusyShare: min(1, busy/up),
		SlotShare: held / up / (s.places * width * (1 + s.otherRuns)),
		InFlight:  held / up, QueuedRequests: waiting / (to - from),
	}
}

func overlap(a, b, from, to float64) float64 { return max(0, min(b, to)-max(a, from)) }
