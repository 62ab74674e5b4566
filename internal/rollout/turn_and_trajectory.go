package rollout

import (
	"errors"
	"fmt"
)

// Turn is one decision of one agent. TokenIDs and Logprobs have equal length.
type Turn struct {
	Phase          string        `json:"phase"`
	PromptTokenIDs []int32       `json:"prompt_token_ids"`
	TokenIDs       []int32       `json:"token_ids"`
	Logprobs       []float32     `json:"logprobs"`
	Constraint     Constraint    `json:"constraint,omitzero"` // what the answer was held to: Logprobs are of what it left
	PolicyVersion  PolicyVersion `json:"policy_version"`
	Engine         EngineID      `json:"engine"`
	FinishReason   string        `json:"finish_reason"`
	Reward         float64       `json:"reward"` // this turn's own reward; 0 when the environment only rewards the end
	Text           string        `json:"text,omitempty"`
	Timing         Timing        `json:"timing,omitzero"` // of its request; zero: not known
}

// Trajectory is one agent's turns in one episode, with its reward.
type Trajectory struct {
	ID        string  `json:"trajectory_id"`
	Sample    int     `json:"sample"` // which episode of the group
	Agent     string  `json:"agent"`
	Turns     []Turn  `json:"turns"`
	Reward    float64 `json:"reward"`
	Advantage float64 `json:"advantage"` // group-normalised: (reward - mean) / std over the group's episodes of this agent
	Truncated bool    `json:"truncated"` // the episode ended at its horizon, not by its own rules
}

// Validate reports a trajectory that must not be trained on.
func (t *Trajectory) Validate() error {
	if t.ID == "" || t.Agent == "" {
		return errors.New("trajectory without id or agent")
	}
	for i := range t.Turns {
		turn := &t.Turns[i]
		if len(turn.TokenIDs) != len(turn.Logprobs) {
			return fmt.Errorf("trajectory %s turn %d: %d token ids but %d logprobs", t.ID, i, len(turn.TokenIDs),
				len(turn.Logprobs))
		}
		if len(turn.TokenIDs) == 0 || len(turn.PromptTokenIDs) == 0 {
			return fmt.Errorf("trajectory %s turn %d: %d prompt and %d completion token ids; both are needed",
				t.ID, i, len(turn.PromptTokenIDs), len(turn.TokenIDs))
		}
	}
	return nil
}
