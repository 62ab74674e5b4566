package fleet

import (
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// facts are the inputs of one decision about an engine.
type facts struct {
	member Member
	want   Desired
	was    Observation // as it was stored last
	seen   Seen
	stage  stage
	canary canaryEnd // of stage canaryEnded
}

// stage is how far a round has come; it goes through each at most once.
type stage uint8

const (
	looked          stage = iota // the engine was looked at
	adaptersChanged              // it was asked to load and unload, and listed its models again
	canaryEnded                  // it was asked for a completion
)

// command is one thing to do about an engine. changeAdapters and sendCanary bring new facts, on which is decided again.
//
//sumtype:decl
type command interface{ isCommand() }

type (
	// storePlan makes the registry show what the engine is.
	storePlan struct{ Plan }
	// leaveFleet ends the engine's membership.
	leaveFleet struct{}
	// changeAdapters asks the engine to load and to unload.
	changeAdapters struct {
		load   []Adapter
		unload []string
	}
	// sendCanary asks the engine for one token of a model.
	sendCanary struct{ model string }
)

func (storePlan) isCommand()      {}
func (leaveFleet) isCommand()     {}
func (changeAdapters) isCommand() {}
func (sendCanary) isCommand()     {}

// engineHealth remembers an engine's failures from round to round.
type engineHealth struct {
	canary canary
	flaps  flaps
}

// decide lists the commands for an engine, in order. The result of each is decided on at once, so that an engine that
// needed one load and a canary is ready within the round.
func (h *engineHealth) decide(now time.Time, f facts, cfg *KeeperConfig) []command {
	if f.stage == canaryEnded {
		quarantined := f.was.State == enginestate.EngineQuarantined
		f.seen.Proven, f.seen.Broken = h.canary.ended(now, f.canary, quarantined, cfg)
	}
	plan := Decide(f.want, f.was, f.seen, cfg.LostAfter)
	if f.stage == looked {
		h.flaps.saw(now, f.was.State, plan.State, cfg)
		if why := h.flaps.fault(f.was.State, plan.State, cfg); why != "" && f.seen.Fault == "" {
			f.seen.Broken = h.canary.quarantine(now, why, cfg)
			plan = Decide(f.want, f.was, f.seen, cfg.LostAfter)
		}
	}
	store := storePlan{plan}
	switch {
	case f.stage == looked && mayLeave(now, f, plan):
		return []command{store, leaveFleet{}}
	case f.stage == looked && len(plan.Load)+len(plan.Unload) > 0:
		return []command{store, changeAdapters{plan.Load, plan.Unload}}
	case f.stage == canaryEnded || f.seen.Fault != "":
		return []command{store}
	case !plan.Canary && !h.canary.due(now, plan.State, cfg.CanaryEvery):
		return []command{store}
	}
	if model := canaryModel(f.want, f.seen.Models); model != "" {
		return []command{store, sendCanary{model}}
	}
	f.seen.Broken = "serves no model"
	return []command{store, storePlan{Decide(f.want, f.was, f.seen, cfg.LostAfter)}}
}

// drainNotice is how long an engine that leaves at once stays listed, so that every dispatcher sees it and takes back
// what the engine has.
const drainNotice = 3 * time.Second

// mayLeave reports whether an engine that is to leave the fleet may: it has finished and unloaded, or it is no longer
// waited for.
func mayLeave(now time.Time, f facts, p Plan) bool {
	since := f.was.Since
	if p.State != f.was.State {
		since = now
	}
	switch {
	case !f.member.Leave:
		return false
	case p.State == enginestate.EngineLost:
		return true
	case f.member.Now:
		return now.Sub(since) >= drainNotice
	}
	return p.State == enginestate.EngineDraining && f.seen.Idle && len(p.Unload) == 0
}
