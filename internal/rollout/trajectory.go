package rollout

import (
	"errors"
	"fmt"
	"time"
)

// Turn is one decision of one agent. TokenIDs and Logprobs have equal length.
type Turn struct {
	Phase          string        `json:"phase"`
	PromptTokenIDs []int32       `json:"prompt_token_ids"`
	TokenIDs       []int32       `json:"token_ids"`
	Logprobs       []float32     `json:"logprobs"`
	PolicyVersion  PolicyVersion `json:"policy_version"`
	Engine         EngineID      `json:"engine"`
	FinishReason   string        `json:"finish_reason"`
	Reward         float64       `json:"reward"` // this turn's own reward; 0 when the environment only rewards the end
	Text           string        `json:"text,omitempty"`
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

// Usage is what a piece of work cost the engines.
type Usage struct {
	Requests       int64   `json:"requests"`
	InputTokens    int64   `json:"input_tokens"`
	OutputTokens   int64   `json:"output_tokens"`
	CachedTokens   int64   `json:"cached_tokens"`
	ExecSec        float64 `json:"exec_seconds"`    // summed over requests: time in flight at an engine
	QueueSec       float64 `json:"queue_seconds"`   // summed over requests: time in the dispatcher's queue
	RepeatedTokens int64   `json:"repeated_tokens"` // generated again because a worker died inside a phase
}

// Add sums u and v.
func (u Usage) Add(v Usage) Usage {
	u.Requests += v.Requests
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CachedTokens += v.CachedTokens
	u.ExecSec += v.ExecSec
	u.QueueSec += v.QueueSec
	u.RepeatedTokens += v.RepeatedTokens
	return u
}

// Checkpoint is a game after its last finished phase: what another process needs to go on with it. Its JSON is what
// the heartbeats of a warm-up carry, and leaves out the turns: those of a warm-up are nobody's.
type Checkpoint struct {
	PhaseIndex int     `json:"phase_index"` // phases finished
	Game       []byte  `json:"game"`        // as the environment saves it
	Episode    Episode `json:"-"`           // turns so far, without rewards of the end
}

// Episode is one finished game: a trajectory per learner-controlled agent.
type Episode struct {
	Ref          EpisodeRef   `json:"ref"`
	Trajectories []Trajectory `json:"trajectories"`
	Phases       int          `json:"phases"`
	Truncated    bool         `json:"truncated"`
	StartedAt    time.Time    `json:"started_at"` // first request dispatched
	FinishedAt   time.Time    `json:"finished_at"`
	EnvSec       float64      `json:"env_seconds"`   // inside the environment
	ModelSec     float64      `json:"model_seconds"` // phases' critical path at engines: the slowest request of each phase
	QueueSec     float64      `json:"queue_seconds"` // phases' critical path in the dispatcher's queue
	Usage        Usage        `json:"usage"`
	Attempts     int          `json:"attempts"`
	// Counts are the environment's own, such as orders by validity, summed over the phases.
	Counts map[string]int64 `json:"counts,omitempty"`
}

// GroupTimes is when a group was where.
type GroupTimes struct {
	LaunchedAt time.Time `json:"launched_at"` // the run asked for it
	StartedAt  time.Time `json:"started_at"`  // its first request was dispatched
	ReadyAt    time.Time `json:"ready_at"`    // committed to the buffer
}

// Group is the episodes of one scenario, whose rewards are compared. It commits once.
type Group struct {
	Ref          GroupRef      `json:"ref"`
	MinVersion   PolicyVersion `json:"policy_version_min"`
	MaxVersion   PolicyVersion `json:"policy_version_max"`
	Samples      int           `json:"samples"` // episodes in it
	Failed       int           `json:"failed"`  // episodes that were given up
	Times        GroupTimes    `json:"times"`
	Usage        Usage         `json:"usage"`
	EpisodeSec   []float64     `json:"episode_seconds"`  // start to finish of each episode, by sample
	ModelSec     []float64     `json:"model_seconds"`    // Episode.ModelSec by sample
	QueueSec     []float64     `json:"queue_seconds"`    // Episode.QueueSec by sample
	EnvSec       []float64     `json:"env_seconds"`      // Episode.EnvSec by sample
	Phases       []int         `json:"phases,omitempty"` // Episode.Phases by sample
	Trajectories []Trajectory  `json:"trajectories"`
}

// Batch is the groups claimed for one step: the same groups whenever the step is claimed again.
type Batch struct {
	Run            RunName       `json:"run"`
	Step           Step          `json:"step"`
	TrainerVersion PolicyVersion `json:"trainer_version"` // newest version published when it was formed
	Groups         []Group       `json:"groups"`
}
