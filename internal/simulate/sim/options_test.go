package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// madeGames are games that a test makes: of each sample so many seconds on an engine that knows secondsOfOutput.
type madeGames struct {
	seconds func(ref rollout.EpisodeRef) int
	fails   func(ref rollout.EpisodeRef) rollout.Code
	flat    func(ref rollout.GroupRef) bool
}

func (g madeGames) ZeroVariance(ref rollout.GroupRef) bool { return g.flat != nil && g.flat(ref) }

func (g madeGames) Game(ref rollout.EpisodeRef) workload.Game {
	game := workload.Game{Agents: 1, Phases: []workload.Phase{{Turns: []workload.Turn{
		{Prompt: 10, Output: g.seconds(ref)},
	}}}}
	if g.fails != nil {
		game.Fails = g.fails(ref)
	}
	return game
}

// secondsOfOutput is an engine that takes a second for each token, and any number of requests at once.
func secondsOfOutput(int) (enginemodel.Engine, error) {
	return enginemodel.NewTimed(10_000, func(c enginemodel.Call) time.Duration {
		return time.Duration(c.Output) * time.Second
	}), nil
}

// latencyBound is a run of two groups per step whose games are all played at once.
func latencyBound(samples, steps int) Setup {
	s := byHand{groups: 2, depth: 1, slots: 1, train: 10 * second, steps: steps}.setup()
	s.Group = runspec.GroupSpec{Samples: samples, MinSamples: samples}
	s.Fleet.MaxInFlight = 10_000
	return s
}

func codes(r Result) map[rollout.Code]int64 {
	left := map[rollout.Code]int64{}
	for _, d := range r.Input.Departures {
		left[d.Code] = d.Groups
	}
	return left
}

// TestWhenGroupsAreComplete: stragglers, the second game of each group, take 100 s and others 20 s.
func TestWhenGroupsAreComplete(t *testing.T) {
	t.Parallel()
	games := madeGames{seconds: func(ref rollout.EpisodeRef) int {
		if ref.Sample == 1 {
			return 100
		}
		return 20
	}}
	for _, tt := range []struct {
		name  string
		group runspec.GroupSpec
		want  float64 // wait of a step
		games int     // in a group
	}{
		{"all games are waited for", runspec.GroupSpec{Samples: 3, MinSamples: 3}, 100, 3},
		{"as many as are wanted suffice", runspec.GroupSpec{Samples: 3, MinSamples: 3, Oversample: 1}, 20, 3},
		{"a minimum without a grace waits to the end", runspec.GroupSpec{Samples: 3, MinSamples: 2}, 100, 3},
		{"a grace after the minimum", runspec.GroupSpec{Samples: 3, MinSamples: 2, Grace: 30 * second}, 50, 2},
	} {
		s := latencyBound(3, 5)
		s.Group = tt.group
		p := play(t, s, Options{Games: games, NewEngine: secondsOfOutput})
		last := p.Input.Records[4]
		wait := last.Trainer.Phases[steprecord.PhaseWait]
		if math.Abs(wait+10-tt.want) > 0.5 { // ten seconds of it pass while the trainer trains
			t.Errorf("%s: a step waits for %.1f s, want %g", tt.name, wait, tt.want)
		}
		if got := len(last.Service.Groups[0].EpisodeSec); got != tt.games {
			t.Errorf("%s: a group has %d games, want %d", tt.name, got, tt.games)
		}
	}
}

// opposed are games in which the learner takes 20 s, the opponent 30 s beside it, and then 40 s alone.
type opposed struct{ madeGames }

func (opposed) Game(rollout.EpisodeRef) workload.Game {
	learner, opponent := workload.Turn{Prompt: 10, Output: 20}, workload.Turn{Prompt: 10, Output: 30, Policy: "gpt"}
	alone := opponent
	alone.Output = 40
	return workload.Game{Agents: 1, Phases: []workload.Phase{{Turns: []workload.Turn{learner, opponent}},
		{Turns: []workload.Turn{alone}}}}
}

// TestPolicyElsewhere: what it decides takes no engine's time.
func TestPolicyElsewhere(t *testing.T) {
	t.Parallel()
	for want, policy := range map[float64]runspec.FixedPolicy{
		70: {Name: "gpt"}, 20: {Name: "gpt", URL: "https://x/v1", Model: "gpt-x"}} {
		s := latencyBound(3, 5)
		s.Policies = []runspec.FixedPolicy{policy}
		p := play(t, s, Options{Games: opposed{}, NewEngine: secondsOfOutput})
		wait := p.Input.Records[4].Trainer.Phases[steprecord.PhaseWait]
		if math.Abs(wait+10-want) > 0.5 { // ten seconds of it pass while the trainer trains
			t.Errorf("%+v: a step waits for %.1f s, want %g", policy, wait, want)
		}
	}
}

// TestGroupsThatComeToNothing are replaced: those of which too many games fail, and those whose rewards are all equal,
// where the run wants none of them.
func TestGroupsThatComeToNothing(t *testing.T) {
	t.Parallel()
	games := madeGames{
		seconds: func(rollout.EpisodeRef) int { return 20 },
		flat:    func(ref rollout.GroupRef) bool { return ref.Seq%3 == 0 },
		fails: func(ref rollout.EpisodeRef) rollout.Code {
			if ref.Seq%4 == 1 && ref.Sample == 0 {
				return rollout.CodeResult
			}
			return ""
		},
	}
	for _, tt := range []struct {
		name    string
		group   runspec.GroupSpec
		dropped map[rollout.Code]bool
	}{
		{"all games must succeed", runspec.GroupSpec{Samples: 2, MinSamples: 2},
			map[rollout.Code]bool{rollout.CodeResult: true}},
		{"one may fail", runspec.GroupSpec{Samples: 2, MinSamples: 1}, nil},
		{"no group without variance", runspec.GroupSpec{Samples: 2, MinSamples: 1, ZeroVariance: runspec.DropZeroVariance},
			map[rollout.Code]bool{rollout.CodeZeroVariance: true}},
	} {
		s := latencyBound(2, 12)
		s.Group = tt.group
		p := play(t, s, Options{Games: games, NewEngine: secondsOfOutput})
		for _, record := range p.Input.Records {
			flat := 0 // groups of more than one game; a single one has no variance in any case
			for _, g := range record.Service.Groups {
				if g.ZeroVariance && len(g.Phases) > 1 {
					flat++
				}
			}
			if len(record.Service.Groups) != 2 || flat > 0 && tt.dropped[rollout.CodeZeroVariance] {
				t.Errorf("%s: step %d has %d groups, %d of them without variance", tt.name, record.Step,
					len(record.Service.Groups), flat)
			}
		}
		left := codes(p.Result)
		if left[steprecord.Trained] != 24 {
			t.Errorf("%s: %d groups were trained on, want 24", tt.name, left[steprecord.Trained])
		}
		for code, n := range left {
			if code != steprecord.Trained && (n == 0 || !tt.dropped[code]) || len(p.Input.Drops) == 0 && len(tt.dropped) > 0 {
				t.Errorf("%s: %d groups dropped for %s", tt.name, n, code)
			}
		}
	}
}

// TestStaleness: what a batch is behind never goes beyond its bound, whether stale groups are dropped or waited for,
// and a game that takes a newer version at each phase is less behind.
func TestStaleness(t *testing.T) {
	t.Parallel()
	for _, on := range []runspec.OnStale{runspec.DropStale, runspec.WaitStale, runspec.KeepStale} {
		s := byHand{groups: 4, depth: 4, slots: 4, call: 60 * second, train: 30 * second, steps: 12}.setup()
		s.Buffer.OnStale, s.Buffer.MaxStaleness = on, 1
		p := play(t, s, Options{})
		most := int64(0)
		for _, record := range p.Input.Records {
			most = max(most, record.Service.StalenessMax)
		}
		want := int64(1)
		if on == runspec.KeepStale {
			want = 4
		}
		if most != want {
			t.Errorf("%s: batches are up to %d versions behind, want %d", on, most, want)
		}
	}
	behind := map[runspec.PolicyRefresh]float64{}
	for _, refresh := range []runspec.PolicyRefresh{runspec.RefreshGroup, runspec.RefreshTurn} {
		s := byHand{groups: 4, depth: 3, slots: 4, call: 60 * second, train: 30 * second, steps: 12}.setup()
		s.PolicyRefresh, s.Overheads.Slots = refresh, 4 // games wait for a slot while versions are published
		p := play(t, s, Options{})
		behind[refresh] = p.Input.Records[11].Service.StalenessMean
	}
	if behind[runspec.RefreshTurn] >= behind[runspec.RefreshGroup] {
		t.Errorf("versions behind: %v", behind)
	}
}

// TestTheTrainersPhases: a checkpoint every second step, a publication that takes its time.
func TestTheTrainersPhases(t *testing.T) {
	t.Parallel()
	s := byHand{groups: 2, depth: 2, slots: 4, call: 10 * second, steps: 6}.setup()
	s.Trainer = Trainer{Load: second, RefLogprobs: 20 * second, Train: 100 * second, Publish: 5 * second,
		Checkpoint: 30 * second, Every: 2}
	p := play(t, s, Options{})
	if got, want := shape(p.walls), "126 156 126 156 126 156"; got != want {
		t.Errorf("steps take %s, want %s", got, want)
	}
	phases := p.Input.Records[3].Trainer.Phases
	for phase, want := range map[steprecord.Phase]float64{steprecord.PhaseLoad: 1, steprecord.PhaseRefLogprobs: 20,
		steprecord.PhaseTrain: 100, steprecord.PhasePublish: 5, steprecord.PhaseCheckpoint: 30, steprecord.PhaseWait: 0} {
		if math.Abs(phases[phase]-want) > 1e-9 {
			t.Errorf("%s takes %g s, want %g", phase, phases[phase], want)
		}
	}
	s.Trainer.Variation = 0.2
	if varied := play(t, s, Options{}); shape(varied.walls) == shape(p.walls) || math.Abs(mean(varied.walls)-141) > 60 {
		t.Errorf("phases that vary: %s", shape(varied.walls))
	}
}

// TestSlots: as many games as the workers have slots, however many engines there are.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := byHand{groups: 8, depth: 2, slots: 16, call: 150 * second, steps: 12}.setup()
	s.Overheads.Slots = 4
	if got, want := shape(play(t, s, Options{}).walls), "150 x3 300 x9"; got != want {
		t.Errorf("steps take %s, want %s", got, want)
	}
}

// TestBytes: a bound in bytes is a smaller depth, and never stops a run.
func TestBytes(t *testing.T) {
	t.Parallel()
	s := byHand{groups: 4, depth: 4, slots: 16, call: 300 * second, steps: 16}.setup()
	free := play(t, s, Options{})
	s.Buffer.MaxBytes = 1
	s.Buffer.Prefill = runspec.PrefillBatch
	bound := play(t, s, Options{})
	if mean(free.walls[4:]) > 151 || mean(bound.walls[4:]) < 290 {
		t.Errorf("steps take %s, and with a bound of one byte %s", shape(free.walls), shape(bound.walls))
	}
}

// TestEnginesThatComeAndGo: what happens to engines shows in the step times, in the events, and loses nothing.
func TestEnginesThatComeAndGo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		event FleetEvent
		want  float64 // last step
		kind  diagnosis.EventKind
	}{
		{"an engine is lost", FleetEvent{Kind: LoseEngine, Step: 6, Engine: 1}, 400, diagnosis.EventEngineLost},
		{"an engine drains", FleetEvent{Kind: DrainEngine, Step: 6, Engine: 1}, 400, diagnosis.EventEngineLeft},
		{"an engine is slow", FleetEvent{Kind: SlowEngine, Step: 6, Engine: 1, Factor: 2}, 343, diagnosis.EventOther},
		{"an engine is added", FleetEvent{Kind: AddEngine, At: 3000 * second}, 240, diagnosis.EventEngineJoined},
	} {
		s := byHand{groups: 8, depth: 2, slots: 4, call: 150 * second, steps: 40}.setup()
		s.Fleet.ColdStart = 60 * second
		s.Fleet.Events = []FleetEvent{tt.event}
		p := play(t, s, Options{})
		if got := mean(p.walls[20:38]); math.Abs(got-tt.want) > 0.03*tt.want {
			t.Errorf("%s: steps take %.0f s, want %g", tt.name, got, tt.want)
		}
		found := false
		for _, e := range p.Input.Events {
			found = found || e.Kind == tt.kind && strings.Contains(e.Text, "engine-")
		}
		if !found {
			t.Errorf("%s: no event of kind %s in %v", tt.name, tt.kind, p.Input.Events)
		}
		if lost := tt.event.Kind == LoseEngine; lost != (p.Totals.Redispatched > 0) {
			t.Errorf("%s: %d requests were dispatched again", tt.name, p.Totals.Redispatched)
		}
	}
}

// TestWhatNeverEnds says why.
func TestWhatNeverEnds(t *testing.T) {
	t.Parallel()
	s := byHand{groups: 2, depth: 1, slots: 1, call: 10 * second, steps: 4}.setup()
	s.Fleet.Events = []FleetEvent{{Kind: LoseEngine, At: 15 * second}, {Kind: AddEngine, Step: 3}}
	_, err := Run(t.Context(), s, Options{})
	if err == nil || !strings.Contains(err.Error(), "no engine serves, and none will") {
		t.Errorf("without an engine: %v", err)
	}
	games := madeGames{seconds: func(rollout.EpisodeRef) int { return 1 },
		fails: func(rollout.EpisodeRef) rollout.Code { return rollout.CodeResult }}
	_, err = Run(t.Context(), latencyBound(1, 3), Options{Games: games, NewEngine: secondsOfOutput})
	if err == nil || !strings.Contains(err.Error(), "came to nothing, the last one for result") {
		t.Errorf("when all games fail: %v", err)
	}
	if !strings.Contains(err.Error(), "step 0") {
		t.Errorf("it does not say at which step: %v", err)
	}
}

// TestDetail: old steps keep their sums and lose their groups.
func TestDetail(t *testing.T) {
	t.Parallel()
	s := byHand{groups: 8, depth: 2, slots: 4, call: 150 * second, steps: 200}.setup()
	p := play(t, s, Options{Detail: 10})
	for i, record := range p.Input.Records {
		if has := len(record.Service.Groups) > 0; has != (i >= 190) {
			t.Errorf("step %d has groups: %v", i, has)
		}
	}
	if got := shape(p.walls); got != "150 x3 300 x197" || len(p.Input.Loads) > 400 {
		t.Errorf("steps take %s, with %d adapter loads kept", got, len(p.Input.Loads))
	}
}
