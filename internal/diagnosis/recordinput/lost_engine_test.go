package recordinput

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// An engine that is bought and does not answer yet is lost to its keeper, and no engine less to the run.
func TestAnEngineThatNeverServedIsNotLost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		states []enginestate.EngineState // the last is lost
		want   diagnosis.EventKind
	}{
		{"it served", []enginestate.EngineState{enginestate.EngineStarting, enginestate.EngineReady, enginestate.EngineLost},
			diagnosis.EventEngineLost},
		{"it starts", []enginestate.EngineState{enginestate.EngineStarting, enginestate.EngineLost}, diagnosis.EventOther},
		{"it starts again", []enginestate.EngineState{enginestate.EngineReady, enginestate.EngineLost,
			enginestate.EngineStarting,
			enginestate.EngineLost}, diagnosis.EventOther},
		{"what it was before is not known", []enginestate.EngineState{enginestate.EngineLost}, diagnosis.EventEngineLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var in diagnosis.Input
			for i, state := range tt.states {
				at := time.Unix(int64(i), 0)
				Add(&in, telemetry.Event{At: at, Engine: "scaled-30", Body: telemetry.EngineChanged{
					State: enginestate.EngineReady}})
				Add(&in, telemetry.Event{At: at, Engine: "scaled-3",
					Body: telemetry.EngineChanged{State: state, Reason: "not answering"}})
			}
			if got := in.Events[len(in.Events)-1]; got.Kind != tt.want {
				t.Errorf("%q is %s, want %s", got.Text, got.Kind, tt.want)
			}
		})
	}
}
