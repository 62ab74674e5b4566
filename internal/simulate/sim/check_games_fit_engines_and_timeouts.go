package sim

import (
	"cmp"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// sizes holds the games that a setup draws to what its engines and the spec's limits have room for. It goes by means:
// where only long games do not fit, those are what fails in the simulation, as they would live.
func (c *checker) sizes(s *Setup) {
	profile := c.profile(&s.Fleet)
	d := s.Workload.Distribution
	if each := time.Duration(float64(s.Fleet.CallTime) * cmp.Or(s.Fleet.TimeFactor, 1)); each > 0 {
		c.limits(s, cmp.Or(d, &workload.Distribution{}), each, "fleet.call_time")
	}
	if d == nil || !c.sound("workload.distribution") {
		return
	}
	c.fail(d.Stragglers > 0 && d.StragglerFactor == 0, "workload.distribution.straggler_share",
		"needs workload.distribution.straggler_factor: how many times as long stragglers are")
	prompt, output := int(d.Prompt.Mean+d.Growth*(d.Phases.Mean-1)), int(d.Output.Mean)
	c.fail(s.Sampling.MaxTokens > 0 && output > s.Sampling.MaxTokens, "workload.distribution.output_tokens.mean",
		"answers of %d tokens in the mean cannot be: sampling.max_tokens is %d", output, s.Sampling.MaxTokens)
	if profile == nil {
		return
	}
	kv := profile.Limits().KV
	c.fail(prompt+output > kv, "workload.distribution.prompt_tokens.mean",
		"prompts of up to %d tokens with answers of %d do not fit the KV cache of one engine, %d tokens (profile %s)",
		prompt, output, kv, profile.Name)
	cost := profile.Cost(cmp.Or(s.Fleet.TimeFactor, 1))
	tokens := time.Duration(max(0, d.Output.Mean-1))
	answer := cost.Duration(batch.Work{Prefill: 1}) + tokens*cost.Duration(batch.Work{Decoding: 1})
	c.limits(s, d, answer, "profile "+profile.Name)
}

// profile is the fleet's, if it has one that can be read.
func (c *checker) profile(f *Fleet) *enginemodel.Profile {
	if f.CallTime > 0 || !c.sound("fleet.profile") {
		return nil
	}
	profile, err := enginemodel.LoadProfile(f.Profile)
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			c.faults.Add("fleet.profile", "%s", line)
		}
		return nil
	}
	return profile
}

// limits holds the spec's timeouts to the shortest time that an answer, a phase and a game take on an engine.
func (c *checker) limits(s *Setup, d *workload.Distribution, answer time.Duration, by string) {
	c.fail(s.Timeouts.Completion > 0 && answer > s.Timeouts.Completion.Std(), "timeouts.completion",
		"%v is less than one answer takes, %v at least (%s): every request would end without one", s.Timeouts.Completion,
		answer.Round(time.Millisecond), by)
	phase := answer + time.Duration(d.Env.Mean*float64(time.Second))
	c.fail(s.Timeouts.PhaseLimit() > 0 && phase > s.Timeouts.PhaseLimit().Std(), "timeouts.phase",
		"%v is less than one phase takes, %v at least: every game would fail", s.Timeouts.PhaseLimit(),
		phase.Round(time.Millisecond))
	game := time.Duration(d.Phases.Mean * float64(phase))
	c.fail(s.Timeouts.Episode > 0 && game > s.Timeouts.Episode.Std(), "timeouts.episode",
		"%v is less than a game of %.0f phases takes, %v at least: every game would fail", s.Timeouts.Episode,
		d.Phases.Mean, game.Round(time.Millisecond))
}
