package enginestate

import (
	"github.com/millrace/millrace/internal/rollout"
)

// RunDemand is the requests of one run that one worker has for a model: queued for engines that serve it, or running.
type RunDemand struct {
	Run    rollout.RunName `json:"run"`
	Model  string          `json:"model"`
	Groups []GroupDemand   `json:"groups"` // the oldest first
}

// GroupDemand is how many requests a worker has of a group. Where there are many groups, neighbours stand together,
// under the oldest of them.
type GroupDemand struct {
	Seq      rollout.GroupSeq `json:"seq"`
	Requests int              `json:"requests"`
}
