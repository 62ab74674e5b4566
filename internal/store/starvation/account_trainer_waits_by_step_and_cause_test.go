package starvation_test

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/starvation"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(sec float64) time.Time { return start.Add(time.Duration(sec * float64(time.Second))) }

// buffer is what a Series looks at, and the place where it is kept. It stands for Redis: what was written stays.
type buffer struct {
	series []byte
	steps  []steprecord.StepRecord
	next   rollout.Step
	asked  time.Time
	last   time.Time
	told   []starvation.Span
	labels map[rollout.Step]starvation.Counted
}

// look is one look of a sampler at a moment, up to writing it down.
func (b *buffer) look(t *testing.T, now time.Time) (write func() bool) {
	t.Helper()
	read := func() starvation.Series {
		var s starvation.Series
		if b.series != nil {
			if err := json.Unmarshal(b.series, &s); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	was := read()
	from := was.From()
	until := min(rollout.Step(len(b.steps)), from+starvation.MaxSteps)
	next, spans, closed := was.Next(starvation.Seen{
		Now: now, Next: b.next, Until: until, More: int(until) < len(b.steps), Asked: b.asked, Last: b.last,
		Steps:   append([]steprecord.StepRecord(nil), b.steps[from:until]...),
		Missing: func() starvation.Evidence { return starvation.Evidence{Need: 1} },
	})
	return func() bool {
		if read().Revision != was.Revision {
			return false
		}
		var err error
		if b.series, err = json.Marshal(next); err != nil {
			t.Fatal(err)
		}
		b.told = append(b.told, spans...)
		for _, c := range closed {
			if _, twice := b.labels[c.Step]; twice {
				t.Errorf("step %d is closed twice", c.Step)
			}
			b.labels[c.Step] = c
		}
		return true
	}
}

func (b *buffer) sum(of func(starvation.Span) bool) float64 {
	sum := 0.0
	for _, s := range b.told {
		if of(s) {
			sum += s.Sec
		}
	}
	return sum
}

func starved(s starvation.Span) bool { return !s.Prefill() }

// claim is what the buffer knows of a trainer's step: asked for, granted, completed, and the wait that it reports.
type claim struct{ asked, granted, completed, wait float64 }

func (b *buffer) step(c claim) {
	r := steprecord.StepRecord{Step: rollout.Step(len(b.steps))}
	r.Service.FirstAskedAt, r.Service.GrantedAt = at(c.asked), at(c.granted)
	if c.completed > 0 {
		r.Done, r.Service.CompletedAt = true, at(c.completed)
		r.Trainer = steprecord.StepReport{WallSec: 1e6, Phases: map[steprecord.Phase]float64{steprecord.PhaseWait: c.wait}}
		b.next++
	}
	b.steps = append(b.steps, r)
}

// TestASeriesIsTheWaits: looks at some moments, and the seconds that they tell of.
func TestASeriesIsTheWaits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		steps   []claim
		asked   float64 // for the step after these; 0: not
		last    float64
		looks   []float64
		starved float64
		prefill float64
	}{
		{"nobody asks", nil, 0, 0, []float64{2, 4}, 0, 0},
		{"the prefill is no starvation", nil, 10, 14, []float64{12, 14}, 0, 4},
		{"a wait that ended between two looks", []claim{{1, 3, 5, 2}, {5, 5.75, 9, 0.75}}, 0, 0, []float64{2, 10},
			0.75, 2},
		{"one that goes on", []claim{{1, 1, 5, 0}}, 5, 9, []float64{4, 6, 8, 9}, 4, 0},
		{"a claim ahead of time waits from the end of the step before", []claim{{1, 1, 10, 0}, {2, 13, 0, 0}}, 0, 0,
			[]float64{4, 8, 12, 14, 16}, 3, 0},
		{"and not while that step goes on", []claim{{1, 1, 0, 0}}, 2, 8, []float64{4, 6, 8}, 0, 0},
		{"a wait of which the service saw a part", []claim{{1, 1, 5, 0}, {25, 26, 40, 21}}, 0, 0, []float64{4, 41}, 21, 0},
		{"a report of more than there was time", []claim{{1, 1, 5, 0}, {6, 7, 10, 1e5}}, 0, 0, []float64{4, 11}, 6, 0},
		{"a trainer that has gone is not waiting", []claim{{1, 1, 5, 0}}, 5, 7, []float64{6, 8, 10, 12, 14, 16, 18, 40},
			4, 0},
		{"nobody looked for an hour", []claim{{1, 1, 5, 0}, {5, 3605, 3610, 3600}}, 0, 0, []float64{4, 3612}, 3600, 0},
		{"a short report does not take anything back", []claim{{1, 1, 5, 0}, {5, 9, 12, 1}}, 0, 0, []float64{6, 8, 13}, 4, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &buffer{labels: map[rollout.Step]starvation.Counted{}}
			for _, c := range tt.steps {
				b.step(c)
			}
			if tt.asked > 0 {
				b.asked, b.last = at(tt.asked), at(tt.last)
			}
			for _, l := range tt.looks {
				b.look(t, at(l))()
			}
			if got := b.sum(starved); math.Abs(got-tt.starved) > 1e-6 {
				t.Errorf("starved %.3f s, want %.3f: %+v", got, tt.starved, b.told)
			}
			if got := b.sum(starvation.Span.Prefill); math.Abs(got-tt.prefill) > 1e-6 {
				t.Errorf("prefill %.3f s, want %.3f: %+v", got, tt.prefill, b.told)
			}
		})
	}
}

// TestAColdStartEndsBetweenTwoLooks: the seconds until the first engine was ready are a cold start's, not those of what
// goes on at the look after it.
func TestAColdStartEndsBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	engine := func(state enginestate.EngineState, since float64) enginestate.Engine {
		return enginestate.Engine{State: state, Since: at(since), MaxInFlight: 8}
	}
	ready := engine(enginestate.EngineReady, 7)
	playing := starvation.Evidence{Need: 1, Launch: 1, Samples: 1, Playing: []starvation.Group{{InFlight: true}}}
	for _, tt := range []struct {
		name    string
		asked   float64
		looks   []float64
		engines []enginestate.Engine // from 7 on; before, one joins
		launch  int                  // groups, from 7 on
		want    map[steprecord.StarvationCause]float64
	}{
		{"seen before", 1, []float64{4, 8, 10}, []enginestate.Engine{ready}, 1,
			map[steprecord.StarvationCause]float64{steprecord.StarvedEngineCold: 6, steprecord.StarvedInference: 3}},
		{"not seen", 5, []float64{4, 8, 10}, []enginestate.Engine{ready}, 1,
			map[steprecord.StarvationCause]float64{steprecord.StarvedEngineCold: 2, steprecord.StarvedInference: 3}},
		{"over before the wait", 7.5, []float64{4, 8, 10}, []enginestate.Engine{ready}, 1,
			map[steprecord.StarvationCause]float64{steprecord.StarvedInference: 2.5}},
		{"and others start", 1, []float64{4, 8, 10}, []enginestate.Engine{ready, engine(enginestate.EngineStarting, 0),
			engine(enginestate.EngineLoading, 0)}, 1, map[steprecord.StarvationCause]float64{steprecord.StarvedEngineCold: 9}},
		{"an engine was lost meanwhile, which may have served until then", 5, []float64{4, 8, 10},
			[]enginestate.Engine{ready, engine(enginestate.EngineLost, 6)}, 1,
			map[steprecord.StarvationCause]float64{steprecord.StarvedInference: 5}},
		{"nothing is launched, now as before, for all that is known", 5, []float64{4, 8, 10}, []enginestate.Engine{ready}, 0,
			map[steprecord.StarvationCause]float64{steprecord.StarvedGated: 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var series starvation.Series
			got := map[steprecord.StarvationCause]float64{}
			for _, look := range tt.looks {
				seen := starvation.Seen{Now: at(look), Missing: func() starvation.Evidence {
					e := playing
					e.Engines = []enginestate.Engine{engine(enginestate.EngineStarting, 0)}
					if look >= 7 {
						e.Engines, e.Launch = tt.engines, tt.launch
					}
					return e
				}}
				if look >= tt.asked {
					seen.Asked = at(tt.asked)
				}
				var spans []starvation.Span
				series, spans, _ = series.Next(seen)
				for _, s := range spans {
					got[s.Cause] += s.Sec
				}
			}
			if !maps.EqualFunc(got, tt.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// FuzzTheSumOfAllWaits is the law: whatever the trainer waits, however seldom anybody looks, however many look at once,
// and whichever of them dies before it has written, the series adds up to the waits of the step records, step by step.
func FuzzTheSumOfAllWaits(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 11))
		b := &buffer{labels: map[rollout.Step]starvation.Counted{}}
		now, nextLook := 0.0, 1.0
		var pending []func() bool // looks that have not written yet
		waits := map[rollout.Step]float64{}
		// pass lets time pass, with the looks that fall into it; asked is since when a trainer asks, and heard whether it
		// does so still.
		pass := func(until float64, asks bool) {
			for nextLook < until {
				if asks {
					b.last = at(nextLook)
				}
				write := b.look(t, at(nextLook))
				switch r.IntN(8) {
				case 0: // dies
				case 1:
					pending = append(pending, write) // stands still, and writes later
				default:
					write()
				}
				if len(pending) > 0 && r.IntN(3) == 0 {
					pending[0]()
					pending = pending[1:]
				}
				nextLook += 2
				if r.IntN(20) == 0 {
					nextLook += r.ExpFloat64() * 120 // nobody is there
				}
			}
			now = until
		}
		steps := 3 + r.IntN(25)
		for k := range rollout.Step(steps) {
			began := now
			if r.IntN(6) == 0 {
				pass(now+r.ExpFloat64()*30, false) // no server hears the trainer
			}
			asked := now
			if r.IntN(4) > 0 {
				b.asked, b.last = at(now), at(now)
				pass(now+r.ExpFloat64()*40, true)
			}
			record := steprecord.StepRecord{Step: k}
			record.Service.FirstAskedAt, record.Service.GrantedAt = at(asked), at(now)
			b.asked, b.last = time.Time{}, time.Time{}
			b.steps = append(b.steps, record)
			pass(now+r.ExpFloat64()*0.2, false) // on its way
			waits[k] = now - began
			trained := now
			pass(now+0.5+r.ExpFloat64()*30, false)
			done := &b.steps[k]
			done.Done, done.Service.CompletedAt = true, at(now)
			done.Trainer = steprecord.StepReport{WallSec: now - began, Phases: map[steprecord.Phase]float64{
				steprecord.PhaseWait: waits[k], steprecord.PhaseTrain: now - trained}}
			b.next = k + 1
		}
		for range 3 {
			now += 2
			b.look(t, at(now))()
		}
		for _, write := range pending {
			if write() {
				t.Fatal("an old look was taken for a new one")
			}
		}
		told := map[rollout.Step]float64{}
		for _, s := range b.told {
			told[s.Step] += s.Sec
		}
		for k, want := range waits {
			labels := b.labels[k]
			if math.Abs(told[k]-want) > 0.01*want+1e-3 || math.Abs(labels.Sum()-told[k]) > 1e-6 {
				t.Errorf("step %d waited %.4f s, the series says %.4f and the record's labels %.4f", k, want, told[k], labels.Sum())
			}
		}
	})
}
