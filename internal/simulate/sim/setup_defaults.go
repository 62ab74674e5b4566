package sim

import (
	_ "embed"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/demo"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// Assumption is a value of fleet, trainer or workload that a setup's file does not say.
type Assumption struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // the key that says it, of the file's demo or of the fleet, or FromDefault
}

// FromDefault is where an assumption comes from that nothing in the file says.
const FromDefault = "default"

// slowest is a demo's speed below every one that it may have: one that is wrong is the fault of its own key.
const slowest = 1e-4

// Complete gives a setup that was read what its demo section says about the fleet and the trainer, where their own
// sections say nothing, and reports what was assumed. The demo's times are those of the modelled hardware: they are
// multiplied by the time factor.
func (s *Setup) Complete(given func(path string) bool) []Assumption {
	a := &assumptions{setup: s, given: given, demo: given("demo")}
	f, d := &s.Fleet, s.Demo
	a.take("fleet.engines", "demo.engines", func() { f.Engines = d.Engines })
	a.take("fleet.profile", "", nil)
	if a.demo { // without one, an engine is as its profile says
		a.take("fleet.time_factor", "demo.speed", func() { f.TimeFactor = 1 / max(d.Speed, slowest) })
		a.take("fleet.max_num_seqs", "demo.engine_max_num_seqs", func() { f.MaxNumSeqs = d.EngineMaxNumSeqs })
	}
	if a.demo && !given("fleet.max_in_flight") && !given("fleet.max_num_seqs") {
		f.MaxInFlight = d.MaxInFlight()
	}
	t := &s.Trainer
	for _, phase := range []struct {
		key  string
		into *rollout.Duration
		demo rollout.Duration
	}{
		{"load", &t.Load, d.Load}, {"ref_logprobs", &t.RefLogprobs, d.RefLogprobs}, {"train", &t.Train, d.Train},
		{"publish", &t.Publish, d.Publish},
	} {
		a.take("trainer."+phase.key, "demo."+phase.key, func() { *phase.into = scaled(phase.demo, f.TimeFactor) })
	}
	if p, err := enginemodel.LoadProfile(f.Profile); err == nil && p.CallOverhead() > 0 && !given("overheads.call") {
		s.Overheads.Call = rollout.Duration(p.CallOverhead())
		a.note("overheads.call", s.Overheads.Call.String(), "fleet.profile")
	}
	if len(s.Workload.sources()) == 0 && !given("workload") {
		s.Workload = Workload{Bots: &BotGames{Answers: BotAnswers}}
		a.note("workload", "bots", FromDefault)
		if a.demo { // its engines answer by chance
			s.Workload.Bots.Answers = DrawnAnswers
			a.note("workload.bots.answers", DrawnAnswers, "demo")
		}
	}
	return a.all
}

func scaled(d rollout.Duration, factor float64) rollout.Duration {
	return rollout.Duration(time.Duration(float64(d) * factor).Round(time.Microsecond))
}

// assumptions collects what was assumed of a setup.
type assumptions struct {
	setup *Setup
	given func(path string) bool
	demo  bool // the file has a demo section
	all   []Assumption
}

// take assumes the value of a key that the file does not say: the demo's, or the one that is there.
func (a *assumptions) take(key, demo string, set func()) {
	if a.given(key) {
		return
	}
	from := FromDefault
	if a.demo && demo != "" {
		set()
		from = demo
	}
	row, _ := sections.Key(key)
	text := row.Text(a.setup)
	if x, isNumber := row.Of(a.setup).Interface().(float64); isNumber {
		text = strconv.FormatFloat(x, 'g', 4, 64)
	}
	a.note(key, text, from)
}

func (a *assumptions) note(key, value, from string) {
	a.all = append(a.all, Assumption{Key: key, Value: value, From: from})
}

// DefaultProfile is the hardware of a fleet that says nothing of it.
const DefaultProfile = enginemodel.DefaultProfile

// DefaultSetup is what a setup's file says where it says nothing, before Complete.
func DefaultSetup() Setup {
	s := Setup{Spec: spec.Default()}
	demo.Keys.SetDefaults(&s)
	sections.SetDefaults(&s)
	return s
}
