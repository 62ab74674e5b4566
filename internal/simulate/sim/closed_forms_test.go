package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

const second = rollout.Duration(time.Second)

// byHand is a run whose step times follow from few numbers: every group is one game, and every game one call.
type byHand struct {
	groups, depth, steps int
	slots                int              // engines, one call at a time each
	call                 rollout.Duration // of each group
	train                rollout.Duration // 0: 150 s
	prefill              runspec.Prefill
}

func (h byHand) setup() Setup {
	s := Setup{Spec: spec.Default()}
	s.Name, s.Model, s.Steps = "by-hand", "base", h.steps
	s.Group = runspec.GroupSpec{Samples: 1, MinSamples: 1}
	s.Buffer.Depth, s.Buffer.GroupsPerStep, s.Buffer.MaxStaleness = h.depth, h.groups, int64(h.depth)+1
	s.Buffer.Prefill = h.prefill
	s.Timeouts = runspec.Timeouts{}
	s.Fleet = Fleet{Engines: h.slots, CallTime: h.call, MaxInFlight: 1, MaxNumSeqs: 1}
	s.Trainer = Trainer{Train: h.train}
	if h.train == 0 {
		s.Trainer.Train = 150 * second
	}
	s.Workload.Distribution = &workload.Distribution{
		Phases: workload.Spread{Mean: 1}, Agents: workload.Spread{Mean: 1}, Prompt: workload.Spread{Mean: 400},
		Output: workload.Spread{Mean: 20},
	}
	return s
}

// played is what is compared of a run.
type played struct {
	Result
	walls   []float64 // of each step, in seconds, without the prefill
	depths  []float64 // ready batches at each claim
	prefill float64
}

func play(t *testing.T, s Setup, o Options) played {
	t.Helper()
	if s.Steps <= 100 { // in longer runs it would take long
		o.check = checkInvariants(t)
	}
	r, err := Run(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	p := played{Result: r, prefill: r.Input.Records[0].PrefillSec()}
	for _, record := range r.Input.Records {
		p.walls = append(p.walls, record.StepSec())
		p.depths = append(p.depths, record.Service.ReadyDepth)
	}
	return p
}

// shape writes step times in whole seconds: 150 x3 300 x17.
func shape(walls []float64) string {
	var parts []string
	for i := 0; i < len(walls); {
		j := i
		for j < len(walls) && math.Round(walls[j]) == math.Round(walls[i]) {
			j++
		}
		if n := j - i; n > 1 {
			parts = append(parts, fmt.Sprintf("%.0f x%d", walls[i], n))
		} else {
			parts = append(parts, fmt.Sprintf("%.0f", walls[i]))
		}
		i = j
	}
	return strings.Join(parts, " ")
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// TestStepTimes are the step times that follow from the theory of the pipeline: trainer C = 150 s, all groups alike.
func TestStepTimes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		of   byHand
		want string // walls, in seconds
		// mean of the steps from the sixth on, the wait before step 0, and the wall time of all steps; 0: not told
		mean, prefill, total float64
	}{
		// Batches of eight groups of 150 s: P = 1200 s / slots.
		{"batch of 8, capacity-bound", byHand{groups: 8, depth: 2, slots: 4, call: 150 * second, steps: 12},
			"150 x3 300 x9", 300, 600, 0},
		{"depth 3", byHand{groups: 8, depth: 3, slots: 4, call: 150 * second, steps: 12}, "150 x5 300 x7", 0, 900, 0},
		{"depth 4", byHand{groups: 8, depth: 4, slots: 4, call: 150 * second, steps: 12}, "150 x7 300 x5", 0, 1200, 0},
		{"depth 6", byHand{groups: 8, depth: 6, slots: 4, call: 150 * second, steps: 16}, "150 x11 300 x5", 0, 1800, 0},
		{"6 engines", byHand{groups: 8, depth: 2, slots: 6, call: 150 * second, steps: 12},
			"150 x5 300 150 x2 300 150 x2 300", 0, 0, 0},
		{"8 engines", byHand{groups: 8, depth: 2, slots: 8, call: 150 * second, steps: 12}, "150 x12", 150, 300, 0},
		{"10 engines", byHand{groups: 8, depth: 2, slots: 10, call: 150 * second, steps: 12}, "150 x12", 150, 0, 0},
		{"reference log-probabilities in rollouts", byHand{groups: 8, depth: 2, slots: 4, call: 165 * second, train: 100 *
			second, steps: 12}, "100 x2 230 330 x9", 330, 0, 0},
		{"and twice the engines", byHand{groups: 8, depth: 2, slots: 8, call: 165 * second, train: 100 * second,
			steps: 30}, "", 165, 0, 0},
		{"5 s of adapter load for each group", byHand{groups: 8, depth: 2, slots: 4, call: 155 * second, steps: 12},
			"150 x2 160 310 x9", 310, 0, 0},
		{"groups of 600 s, 16 slots", byHand{groups: 8, depth: 2, slots: 16, call: 600 * second, steps: 9},
			"150 x2 450 150 450 150 450 150 450", 0, 600, 0},
		{"groups of 600 s, 16 slots, depth 3", byHand{groups: 8, depth: 3, slots: 16, call: 600 * second, steps: 8},
			"150 x3 300 150 450 150 450", 0, 0, 0},
		{"groups of 600 s, 32 slots, depth 4", byHand{groups: 8, depth: 4, slots: 32, call: 600 * second, steps: 12},
			"150 x12", 0, 0, 0},

		// Batches of sixteen groups: P = 2400 s / slots.
		{"P=300, depth 1", byHand{groups: 16, depth: 1, slots: 8, call: 150 * second, steps: 20}, "150 300 x19", 0,
			300, 6150},
		{"P=300, depth 2", byHand{groups: 16, depth: 2, slots: 8, call: 150 * second, steps: 20}, "150 x3 300 x17", 0,
			600, 6150},
		{"P=300, depth 3", byHand{groups: 16, depth: 3, slots: 8, call: 150 * second, steps: 20}, "150 x5 300 x15", 0,
			900, 6150},
		{"P=300, depth 4", byHand{groups: 16, depth: 4, slots: 8, call: 150 * second, steps: 20}, "150 x7 300 x13", 0,
			1200, 6150},
		{"P=150, depth 2", byHand{groups: 16, depth: 2, slots: 16, call: 150 * second, steps: 20}, "150 x20", 0, 300,
			3300},
		{"P=150, depth 4", byHand{groups: 16, depth: 4, slots: 16, call: 150 * second, steps: 20}, "150 x20", 0, 600,
			3600},
		{"P=200, depth 2", byHand{groups: 16, depth: 2, slots: 12, call: 150 * second, steps: 20}, "", 200, 450, 4200},
		{"prefill of the first batch alone", byHand{groups: 16, depth: 3, slots: 8, call: 150 * second, steps: 20,
			prefill: runspec.PrefillBatch}, "150 300 x19", 0, 300, 6150},
		{"P=280", byHand{groups: 16, depth: 2, slots: 8, call: 140 * second, steps: 8}, "150 x3 260 280 x4", 0, 0, 0},
		{"P=310", byHand{groups: 16, depth: 2, slots: 8, call: 155 * second, steps: 8}, "150 x2 160 310 x5", 0, 0, 0},
		{"latency-bound, depth 2", byHand{groups: 16, depth: 2, slots: 64, call: 600 * second, steps: 9},
			"150 x2 450 150 450 150 450 150 450", 0, 600, 0},
		{"latency-bound, depth 3", byHand{groups: 16, depth: 3, slots: 64, call: 600 * second, steps: 10},
			"150 x3 300 150 x2 300 150 x2 300", 0, 600, 0},
		{"latency-bound, depth 4", byHand{groups: 16, depth: 4, slots: 64, call: 600 * second, steps: 10}, "150 x10", 0,
			600, 0},
		{"latency-bound, twice the engines", byHand{groups: 16, depth: 2, slots: 128, call: 600 * second, steps: 5},
			"150 x2 450 150 450", 0, 600, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := play(t, tt.of.setup(), Options{})
			if got := shape(p.walls); tt.want != "" && got != tt.want {
				t.Errorf("steps take %s, want %s", got, tt.want)
			}
			if got := mean(p.walls[5:]); tt.mean > 0 && math.Abs(got-tt.mean) > 1 {
				t.Errorf("steps take %.1f s in the mean (%s), want %g", got, shape(p.walls), tt.mean)
			}
			rounds := launchRounds(tt.of)
			if tt.prefill > 0 && (p.prefill < tt.prefill || p.prefill > tt.prefill+rounds) {
				t.Errorf("the prefill takes %.1f s, want %g and at most %g for rounds of launches", p.prefill, tt.prefill, rounds)
			}
			if total := p.Wall.Seconds(); tt.total > 0 && math.Abs(total-tt.total) > rounds {
				t.Errorf("all steps take %.1f s, want %g", total, tt.total)
			}
		})
	}
}

// launchRounds is how much later the last group of the prefill may begin than the first: the run launches it in rounds,
// one a second.
func launchRounds(h byHand) float64 {
	return math.Ceil(float64(h.groups*h.depth)/16) - 1 + 0.001
}

// TestOnset is the number of fast steps, floor((D-1)P/(P-C)) + 1, of batches that are played one after another.
func TestOnset(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		period rollout.Duration
		fast   [3]int // with depth 2, 3, 4
	}{{200, [3]int{5, 9, 13}}, {250, [3]int{3, 6, 8}}, {300, [3]int{3, 5, 7}}, {450, [3]int{2, 4, 5}}} {
		for i, want := range tt.fast {
			p := play(t, byHand{groups: 1, depth: i + 2, slots: 1, call: tt.period * second, steps: 20}.setup(),
				Options{})
			fast := slices.IndexFunc(p.walls, func(wall float64) bool { return wall > 150.5 })
			if fast != want {
				t.Errorf("P=%d, depth %d: %d fast steps in %s, want %d", tt.period, i+2, fast, shape(p.walls), want)
			}
			if want := 20*float64(tt.period) + 150; math.Abs(p.Wall.Seconds()-want) > 0.01 {
				t.Errorf("P=%d, depth %d: 20 steps take %v, want N*P + C = %g s whatever the depth", tt.period, i+2, p.Wall,
					want)
			}
		}
	}
}

// TestReadyDepthFallsFromStep0: of a run that its engines starve, the ready batches at each claim tell long before the
// steps become slow.
func TestReadyDepthFallsFromStep0(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int][]float64{
		2: {2, 1.5, 1, 1}, 3: {3, 2.5, 2, 1.5, 1, 1}, 4: {4, 3.5, 3, 2.5, 2, 1.5, 1, 1},
	} {
		p := play(t, byHand{groups: 16, depth: depth, slots: 8, call: 150 * second, steps: 10}.setup(), Options{})
		if got := p.depths[:len(want)]; !slices.Equal(got, want) {
			t.Errorf("depth %d: ready batches at the claims are %v, want %v", depth, got, want)
		}
	}
}

// TestEnginesAndDepth: so many engines that production is as fast as training, and no more, are worth having; depth
// moves nothing but staleness.
func TestEnginesAndDepth(t *testing.T) {
	t.Parallel()
	for engines, want := range map[int]float64{2: 600, 3: 400, 4: 300, 5: 240, 6: 200, 7: 171.4, 8: 150, 9: 150} {
		p := play(t, byHand{groups: 8, depth: 2, slots: engines, call: 150 * second, steps: 64}.setup(), Options{})
		if got := mean(p.walls[15:]); math.Abs(got-want) > 0.02*want {
			t.Errorf("%d engines: %.1f s per step, want %g", engines, got, want)
		}
	}
	for depth := 1; depth <= 8; depth++ {
		p := play(t, byHand{groups: 8, depth: depth, slots: 4, call: 150 * second, steps: 40}.setup(), Options{})
		if got := p.Wall.Seconds(); math.Abs(got-12_150) > launchRounds(byHand{groups: 8, depth: depth}) {
			t.Errorf("depth %d: 40 steps take %.0f s, want 12150", depth, got)
		}
		last := p.Input.Records[39].Service
		if last.StalenessMin != int64(depth) || last.StalenessMax != int64(depth) {
			t.Errorf("depth %d: the last batch is %d to %d versions behind, want %d", depth, last.StalenessMin,
				last.StalenessMax, depth)
		}
	}
}

// TestColdEngines: six of eight engines that are replaced, and cold for 600 s, cost two slow steps; then the run is as
// fast as before.
func TestColdEngines(t *testing.T) {
	t.Parallel()
	s := byHand{groups: 8, depth: 2, slots: 8, call: 140 * second, steps: 9}.setup()
	s.Fleet.ColdStart = 600 * second
	for i := range 6 {
		s.Fleet.Events = append(s.Fleet.Events, FleetEvent{Kind: LoseEngine, Engine: i, At: 280 * second})
	}
	for range 6 {
		s.Fleet.Events = append(s.Fleet.Events, FleetEvent{Kind: AddEngine, At: 280 * second})
	}
	p := play(t, s, Options{})
	if got, want := shape(p.walls), "150 x2 410 180 150 x5"; got != want || p.prefill != 280 {
		t.Errorf("after %g s of prefill steps take %s, want %s", p.prefill, got, want)
	}
}

// sharing is an engine whose calls all take the same seconds of work, and share it equally.
type sharing struct {
	work    float64 // seconds of a call that is alone
	done    float64 // seconds of work that each call present from the start has got
	at      time.Duration
	calls   []sharedCall
	ended   []enginemodel.Event
	counted enginemodel.Stats
}

type sharedCall struct {
	id   uint64
	upTo float64 // of done
}

func (s *sharing) Submit(now time.Duration, calls []enginemodel.Call) error {
	s.catchUp(now)
	for _, c := range calls {
		s.calls = append(s.calls, sharedCall{c.ID, s.done + s.work})
	}
	return nil
}

func (s *sharing) catchUp(now time.Duration) {
	for {
		at, ok := s.next()
		if !ok || at > now {
			break
		}
		s.done, s.at = s.calls[0].upTo, at
		s.ended = append(s.ended, enginemodel.Event{At: at, ID: s.calls[0].id, Kind: enginemodel.Ended})
		s.calls = s.calls[1:]
	}
	if n := len(s.calls); n > 0 {
		s.done += (now - s.at).Seconds() / float64(n)
	}
	s.at = now
}

func (s *sharing) next() (time.Duration, bool) {
	if len(s.calls) == 0 {
		return 0, false
	}
	left := (s.calls[0].upTo - s.done) * float64(len(s.calls))
	return s.at + time.Duration(math.Round(max(0, left)*1e9)), true
}

func (s *sharing) Advance(now time.Duration) []enginemodel.Event {
	s.catchUp(now)
	told := s.ended
	s.ended = nil
	return told
}

func (s *sharing) Next() (time.Duration, bool) {
	if len(s.ended) > 0 {
		return s.ended[0].At, true
	}
	return s.next()
}

func (s *sharing) Abort(now time.Duration, id uint64) bool {
	s.catchUp(now)
	had := len(s.calls)
	s.calls = slices.DeleteFunc(s.calls, func(c sharedCall) bool { return c.id == id })
	return len(s.calls) < had
}

func (s *sharing) Load(now time.Duration, id uint64, _ string) {
	s.catchUp(now)
	s.ended = append(s.ended, enginemodel.Event{At: now, ID: id, Kind: enginemodel.Loaded})
}

func (s *sharing) SetSlow(now time.Duration, _ float64) { s.catchUp(now) }

func (s *sharing) Stats() enginemodel.Stats {
	s.counted.Running = len(s.calls)
	return s.counted
}

// TestProcessorSharing: when all groups share the engine instead of standing in line for it, the slow steps come
// earlier.
func TestProcessorSharing(t *testing.T) {
	t.Parallel()
	shared := func(int) (enginemodel.Engine, error) { return &sharing{work: 300. / 16}, nil }
	for depth, want := range map[int]string{2: "150 x2 300 x5 150", 3: "150 x3 225 450 225 150 x2"} {
		s := byHand{groups: 16, depth: depth, slots: 1, steps: 8}.setup()
		s.Fleet.MaxInFlight = 1000
		p := play(t, s, Options{NewEngine: shared})
		if got := shape(p.walls); got != want { // in the end nothing more is launched, and what is left goes faster
			t.Errorf("depth %d: steps take %s, want %s", depth, got, want)
		}
	}
}

// chanceGames are games of one call whose time is drawn: mean * (1 + 0.5 * (Exp(1) - 1)), in milliseconds of output.
type chanceGames struct{ mean time.Duration }

func (g chanceGames) ZeroVariance(rollout.GroupRef) bool { return false }

func (g chanceGames) Game(ref rollout.EpisodeRef) workload.Game {
	r := virtualtime.SplitMix(uint64(ref.Seq) * 0x9E3779B97F4A7C15)
	ms := float64(g.mean.Milliseconds()) * (0.5 + 0.5*r.Exponential())
	return workload.Game{Agents: 1, Phases: []workload.Phase{{Turns: []workload.Turn{{Prompt: 1, Output: int(ms)}}}}}
}

// TestDepthAbsorbsVarianceAlone is the starved share of a run whose groups vary (cv 0.5), eight to a step on four
// slots: below P/C = 1 depth absorbs the variance, above it the share is 1 - C/P whatever the depth, and one batch
// alone is always worse.
func TestDepthAbsorbsVarianceAlone(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("12,000 steps are slow under the race detector; run without -short")
	}
	byOutput := func(int) (enginemodel.Engine, error) {
		return enginemodel.NewTimed(1, func(c enginemodel.Call) time.Duration {
			return time.Duration(c.Output) * time.Millisecond
		}), nil
	}
	for _, tt := range []struct {
		load  float64 // P/C
		depth int
		want  float64 // percent of the time
	}{{0.7, 1, 5.2}, {0.7, 2, 0}, {0.95, 1, 20.3}, {0.95, 2, 1.4}, {1.2, 1, 35.8}, {1.2, 2, 16.7}, {1.2, 4, 16.6},
		{2, 2, 50}} {
		h := byHand{groups: 8, depth: tt.depth, slots: 4, steps: 1500}
		games := chanceGames{time.Duration(75 * tt.load * float64(time.Second))}
		p := play(t, h.setup(), Options{NewEngine: byOutput, Games: games})
		starved := 100 * (1 - 150/mean(p.walls[1:]))
		if math.Abs(starved-tt.want) > 1.5 {
			t.Errorf("P/C = %g, depth %d: starved for %.1f %% of the time, want %g", tt.load, tt.depth, starved, tt.want)
		}
	}
}
