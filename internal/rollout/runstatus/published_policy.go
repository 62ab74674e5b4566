package runstatus

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Policy is one published version of the weights.
type Policy struct {
	Version     rollout.PolicyVersion        `json:"version"`
	Adapter     string                       `json:"adapter"`
	Path        string                       `json:"path"`
	Digest      string                       `json:"digest,omitempty"`
	State       PolicyState                  `json:"state"`
	Reason      string                       `json:"reason,omitempty"`
	PublishedAt time.Time                    `json:"published_at"`
	LoadSec     map[rollout.EngineID]float64 `json:"load_seconds,omitempty"`
	// Proofs are what engines' answers to its probes said. Only answers of the API tell.
	Proofs map[rollout.EngineID]enginestate.AdapterProof `json:"proofs,omitempty"`
	Notes  []string                                      `json:"notes,omitempty"` // what could not be checked, or will be in the way later
}

// PolicyState is how far a publication has come.
type PolicyState string

// The policy states.
const (
	PolicyLoading  PolicyState = "loading"
	PolicyServing  PolicyState = "serving"
	PolicyRejected PolicyState = "rejected"
	PolicyRetired  PolicyState = "retired"
)
