package enginestate_test

import (
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Uses of an engine's models add up over the workers that live; those of models that it neither has nor is asked for
// are left out.
func TestEngineUses(t *testing.T) {
	t.Parallel()
	at := func(n int) map[rollout.EngineID]int { return map[rollout.EngineID]int{"e": n, "other": 100} }
	workers := []enginestate.Worker{
		{State: enginestate.WorkerAlive, Models: []enginestate.ModelUse{
			{Run: "b", Model: "b-v1", Games: 3, Queued: 1, InFlight: at(2)},
			{Run: "a", Model: "base", Games: 1},
			{Run: "a", Model: "elsewhere", Games: 9, InFlight: map[rollout.EngineID]int{"other": 9}},
			{Run: "a", Model: "unloaded", InFlight: at(1)},
		}},
		{State: enginestate.WorkerAlive, Models: []enginestate.ModelUse{{Run: "b", Model: "b-v1", Games: 4,
			InFlight: at(5)}}},
		{State: enginestate.WorkerAbsent, Models: []enginestate.ModelUse{{Run: "b", Model: "b-v1", Games: 50,
			InFlight: at(50)}}},
	}
	engine := enginestate.Engine{ID: "e", Models: []string{"base"}, Adapters: []string{"b-v0", "b-v1"}}
	got := enginestate.EngineUses(&engine, workers)
	want := []enginestate.EngineUse{
		{Run: "b", Model: "b-v1", Games: 7, Queued: 1, Requests: 7},
		{Run: "a", Model: "base", Games: 1},
		{Run: "a", Model: "unloaded", Requests: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
