package enginestate

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Worker is one worker process, as it last described itself.
type Worker struct {
	ID        string      `json:"id"`
	State     WorkerState `json:"state"`
	Host      string      `json:"host"`
	Version   string      `json:"version"` // of the program
	StartedAt time.Time   `json:"started_at,omitzero"`
	LastSeen  time.Time   `json:"last_seen,omitzero"`
	Slots     int         `json:"slots"`                // games that it may play at a time
	SlotsFrom string      `json:"slots_from,omitempty"` // why so many, for people
	Scales    bool        `json:"scales,omitempty"`     // its configuration scales the fleet
	// Serves marks a server that hands calls on to engines: it shares them like a worker, and plays no games.
	Serves   bool                    `json:"serves,omitempty"`
	Games    int                     `json:"games"` // that it plays
	ByRun    map[rollout.RunName]int `json:"games_by_run,omitempty"`
	Breakers []Breaker               `json:"breakers,omitempty"` // engines that it gives no requests for now
	// Requests is the requests of its games by run; runs without any are left out. Nil: it does not say.
	Requests map[rollout.RunName]RequestCounts `json:"requests_by_run,omitzero"`
	// Models is what its games use which model for, by run. Nil: it does not say.
	Models []ModelUse `json:"models,omitempty"`
	// Shares is how many requests it may have in flight at each engine by its share of the engine's limit. Nil: it does
	// not say.
	Shares map[rollout.EngineID]int `json:"shares,omitempty"`
}

// Demand is the worker's requests, queued and in flight; false if it does not say.
func (w *Worker) Demand() (requests int, said bool) {
	for _, n := range w.Requests {
		requests += n.Queued + n.InFlight
	}
	return requests, w.Requests != nil
}

// Share is the slots of all engines that the worker may use; false if it does not say.
func (w *Worker) Share() (slots int, said bool) {
	for _, n := range w.Shares {
		slots += n
	}
	return slots, w.Shares != nil
}

// RequestCounts is requests by where they are.
type RequestCounts struct {
	Queued   int `json:"queued"`    // in the worker's dispatch queue
	InFlight int `json:"in_flight"` // at engines
}

// WorkerState is whether a worker is there.
type WorkerState string

// The worker states.
const (
	WorkerAlive   WorkerState = "alive"
	WorkerAbsent  WorkerState = "absent"  // not heard of for a while: dead, or cut off from Redis
	WorkerStopped WorkerState = "stopped" // took its leave
)
