package diagnosis

import (
	"github.com/millrace/millrace/internal/rollout"
)

// PhaseText is how a phase is called in a sentence.
func PhaseText(p rollout.Phase) string {
	switch p {
	case rollout.PhaseWait:
		return "waiting for batches"
	case rollout.PhaseLoad:
		return "loading batches"
	case rollout.PhaseRefLogprobs:
		return "reference log-probs"
	case rollout.PhaseTrain:
		return "training"
	case rollout.PhasePublish:
		return "publishing weights"
	case rollout.PhaseCheckpoint:
		return "checkpoints"
	}
	return "other work of the trainer"
}
