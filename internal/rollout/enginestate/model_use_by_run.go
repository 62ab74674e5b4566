package enginestate

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// ModelUse is what a worker uses one model for, an adapter or a base model, on behalf of one run.
type ModelUse struct {
	Run      rollout.RunName          `json:"run"`
	Model    string                   `json:"model"`
	Games    int                      `json:"games,omitempty"`     // that it plays and that were begun with it
	Queued   int                      `json:"queued,omitempty"`    // requests
	InFlight map[rollout.EngineID]int `json:"in_flight,omitempty"` // requests, by engine
}

// EngineUse is what all live workers use one model of an engine for, on behalf of one run.
type EngineUse struct {
	Run      rollout.RunName `json:"run"`
	Model    string          `json:"model" doc:"Adapter or base model, as the engine serves it"`
	Games    int             `json:"games" doc:"In play that were begun with it, at whichever engine"`
	Queued   int             `json:"queued" doc:"Requests that wait for an engine that serves it"`
	Requests int             `json:"requests" doc:"In flight at this engine"`
}

// EngineUses is what live workers use an engine's models for, by model and run.
func EngineUses(engine *Engine, workers []Worker) []EngineUse {
	var uses []EngineUse
	for i := range workers {
		if workers[i].State != WorkerAlive {
			continue
		}
		for _, u := range workers[i].Models {
			serves := slices.Contains(engine.Adapters, u.Model) || slices.Contains(engine.Models, u.Model)
			if !serves && u.InFlight[engine.ID] == 0 {
				continue
			}
			at := slices.IndexFunc(uses, func(of EngineUse) bool { return of.Run == u.Run && of.Model == u.Model })
			if at < 0 {
				at = len(uses)
				uses = append(uses, EngineUse{Run: u.Run, Model: u.Model})
			}
			uses[at].Games += u.Games
			uses[at].Queued += u.Queued
			uses[at].Requests += u.InFlight[engine.ID]
		}
	}
	slices.SortFunc(uses, func(a, b EngineUse) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Run, b.Run))
	})
	return uses
}
