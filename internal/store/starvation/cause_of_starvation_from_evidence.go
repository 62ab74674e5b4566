package starvation

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Evidence is the known state of the groups that a batch waits for, and of the workers that play them.
type Evidence struct {
	Need    int     // groups that the batch needs ready
	Ready   int     // groups that are
	Launch  int     // groups that are launched and not ready: queued or in flight
	Samples int     // the games of a group that must finish
	Playing []Group // the launched ones in the order of their launch, as many as are missing at most

	Requests Requests             // of the run, in all workers; zero where no worker reports any
	Reported bool                 // a worker reports its requests
	Engines  []enginestate.Engine // of the fleet
	// Starting is the requests at a time that engines will take which scaling has bought and the fleet has not yet.
	Starting int
	Adapters []string // that serve the run's groups; none: the base model does
	Loading  []string // that are being published: engines load them beside their work
}

// Group is how far a group has come.
type Group struct {
	InFlight bool // a request of it was dispatched
	Begun    int  // games that have saved something
	Finished int  // games that are over
}

// Requests is requests of games by where they are.
type Requests struct {
	Queued   int // for an engine
	InFlight int // at one
}

// Cause is what delays the missing group that is furthest behind, and will complete the batch.
func Cause(e Evidence) steprecord.StarvationCause {
	missing := e.Need - e.Ready
	if missing <= 0 {
		if e.Launch == 0 {
			return steprecord.StarvedHandover
		}
		missing = 1 // groups in play that would become too stale are waited for
	}
	if missing > e.Launch {
		return steprecord.StarvedGated
	}
	if cause := enginesNotReady(e); cause != "" {
		return cause
	}
	if slices.ContainsFunc(e.Playing, func(g Group) bool { return !g.InFlight }) {
		return steprecord.StarvedQueue
	}
	switch {
	case stragglers(e):
		return steprecord.StarvedStraggler
	case !e.Reported || e.Requests.InFlight > 0:
		return steprecord.StarvedInference
	case e.Requests.Queued > 0:
		return steprecord.StarvedQueue
	}
	return steprecord.StarvedEnv
}

// stragglers reports whether every missing group waits for its last game alone.
func stragglers(e Evidence) bool {
	if e.Samples < 2 || len(e.Playing) == 0 {
		return false
	}
	return !slices.ContainsFunc(e.Playing, func(g Group) bool { return g.Finished < e.Samples-1 })
}

// enginesNotReady is why engines do not generate though they should: none is ready, most places are at engines that
// still start up, or the ready ones load an adapter and generate nothing meanwhile.
func enginesNotReady(e Evidence) steprecord.StarvationCause {
	serving, stalled, lacking, places, starting := 0, 0, 0, 0, e.Starting
	for _, engine := range e.Engines {
		switch engine.State {
		case enginestate.EngineReady:
			places += engine.MaxInFlight
			switch {
			case lacks(engine, e.Adapters):
				lacking++
			case lacks(engine, e.Loading) && engine.Load.Running > 0 && engine.Load.OutputTPS == 0:
				stalled++
			default:
				serving++
			}
		case enginestate.EngineStarting, enginestate.EngineLoading:
			starting += engine.MaxInFlight
		case enginestate.EngineDraining, enginestate.EngineQuarantined, enginestate.EngineLost:
		}
	}
	switch {
	case serving == 0 && lacking+stalled > 0:
		return steprecord.StarvedAdapterLoad
	case serving == 0 || starting > places:
		return steprecord.StarvedEngineCold
	}
	return ""
}

// coldUntil is when the first engine became ready, in a fleet that had none at the look before, or may have had none if
// there was no such look. Zero: another cause explains the whole time since, or it is not known. A cold start of
// seconds may lie between two looks.
func coldUntil(e Evidence, was, now steprecord.StarvationCause) (ready time.Time) {
	switch {
	case now == steprecord.StarvedEngineCold, was != steprecord.StarvedEngineCold && was != "":
		return time.Time{}
	case was == "" && (now == steprecord.StarvedGated || now == steprecord.StarvedHandover):
		return time.Time{}
	}
	for _, engine := range e.Engines {
		switch engine.State {
		case enginestate.EngineReady:
			if ready.IsZero() || engine.Since.Before(ready) {
				ready = engine.Since
			}
		case enginestate.EngineDraining, enginestate.EngineQuarantined, enginestate.EngineLost:
			return time.Time{} // it may have served until then
		case enginestate.EngineStarting, enginestate.EngineLoading:
		}
	}
	return ready
}

// lacks reports whether the engine still has to load one of the adapters.
func lacks(engine enginestate.Engine, adapters []string) bool {
	return slices.ContainsFunc(adapters, func(a string) bool {
		_, refused := engine.Troubles[a]
		return !refused && !slices.Contains(engine.Adapters, a)
	})
}
