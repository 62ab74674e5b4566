package starvation_test

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/starvation"
)

// TestCause: what the group does that is furthest behind of those that the batch still needs.
func TestCause(t *testing.T) {
	t.Parallel()
	engine := func(state enginestate.EngineState, adapters ...string) enginestate.Engine {
		return enginestate.Engine{State: state, MaxInFlight: 8, Adapters: adapters,
			Load: enginestate.EngineLoad{Running: 4, OutputTPS: 100}}
	}
	ready := []enginestate.Engine{engine(enginestate.EngineReady, "demo-v1")}
	stalled := engine(enginestate.EngineReady, "demo-v1")
	stalled.Load.OutputTPS = 0
	playing := []starvation.Group{{InFlight: true, Begun: 4}, {InFlight: true, Begun: 4, Finished: 2}}
	waiting := []starvation.Group{{InFlight: true, Begun: 4}, {}}
	last := []starvation.Group{{InFlight: true, Begun: 4, Finished: 3}}
	busy := starvation.Requests{InFlight: 5, Queued: 9}
	for _, tt := range []struct {
		name string
		e    starvation.Evidence
		want steprecord.StarvationCause
	}{
		{"nothing is launched", starvation.Evidence{Need: 8, Ready: 3, Engines: ready}, steprecord.StarvedGated},
		{"too little is launched", starvation.Evidence{Need: 8, Ready: 3, Launch: 4, Playing: playing, Engines: ready},
			steprecord.StarvedGated},
		{"one is not taken up", starvation.Evidence{Need: 8, Ready: 6, Launch: 9, Playing: waiting, Engines: ready},
			steprecord.StarvedQueue},
		{"no engine is ready", starvation.Evidence{Need: 8, Ready: 6, Launch: 9, Playing: waiting,
			Engines: []enginestate.Engine{engine(enginestate.EngineLost), engine(enginestate.EngineStarting)}},
			steprecord.StarvedEngineCold},
		{"there is no engine", starvation.Evidence{Need: 8, Launch: 9, Playing: playing}, steprecord.StarvedEngineCold},
		{"most engines are cold", starvation.Evidence{Need: 8, Launch: 9, Playing: playing, Engines: []enginestate.Engine{
			ready[0], engine(enginestate.EngineStarting), engine(enginestate.EngineLoading)}}, steprecord.StarvedEngineCold},
		{"most engines are bought, and not there yet", starvation.Evidence{Need: 8, Launch: 9, Playing: playing,
			Engines: ready, Starting: 16}, steprecord.StarvedEngineCold},
		{"few of them are", starvation.Evidence{Need: 8, Launch: 9, Samples: 4, Playing: playing, Engines: ready,
			Starting: 8}, steprecord.StarvedInference},
		{"a lost engine among ready ones", starvation.Evidence{Need: 8, Launch: 9, Samples: 4, Playing: playing,
			Engines: []enginestate.Engine{ready[0], engine(enginestate.EngineLost), engine(enginestate.EngineLost)}},
			steprecord.StarvedInference},
		{"the adapter is not there yet", starvation.Evidence{Need: 8, Launch: 9, Playing: playing, Engines: ready,
			Adapters: []string{"demo-v2"}}, steprecord.StarvedAdapterLoad},
		{"engines load the next one, and generate meanwhile", starvation.Evidence{Need: 8, Launch: 9, Samples: 4,
			Playing: playing, Engines: ready, Adapters: []string{"demo-v1"}, Loading: []string{"demo-v2"}},
			steprecord.StarvedInference},
		{"engines load the next one, and stand still", starvation.Evidence{Need: 8, Launch: 9, Playing: playing,
			Engines: []enginestate.Engine{stalled}, Adapters: []string{"demo-v1"}, Loading: []string{"demo-v2"}},
			steprecord.StarvedAdapterLoad},
		{"engines generate", starvation.Evidence{Need: 8, Launch: 9, Samples: 4, Playing: playing, Engines: ready,
			Requests: busy, Reported: true}, steprecord.StarvedInference},
		{"an older worker does not say", starvation.Evidence{Need: 8, Launch: 9, Samples: 4, Playing: playing,
			Engines: ready}, steprecord.StarvedInference},
		{"all requests wait for a place", starvation.Evidence{Need: 8, Launch: 9, Samples: 4, Playing: playing,
			Engines: ready, Requests: starvation.Requests{Queued: 3}, Reported: true}, steprecord.StarvedQueue},
		{"no request is on its way", starvation.Evidence{Need: 8, Launch: 9, Samples: 4, Playing: playing,
			Engines: ready, Reported: true}, steprecord.StarvedEnv},
		{"the last game of the last group", starvation.Evidence{Need: 8, Ready: 7, Launch: 9, Samples: 4, Playing: last,
			Engines: ready, Requests: busy, Reported: true}, steprecord.StarvedStraggler},
		{"a group of one game has no straggler", starvation.Evidence{Need: 8, Ready: 7, Launch: 9, Samples: 1,
			Playing: []starvation.Group{{InFlight: true}}, Engines: ready, Requests: busy, Reported: true},
			steprecord.StarvedInference},
		{"all is there", starvation.Evidence{Need: 8, Ready: 8, Engines: ready}, steprecord.StarvedHandover},
		{"what would become too stale is waited for", starvation.Evidence{Need: 8, Ready: 8, Launch: 2, Samples: 4,
			Playing: playing, Engines: ready, Requests: busy, Reported: true}, steprecord.StarvedInference},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := starvation.Cause(tt.e); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
