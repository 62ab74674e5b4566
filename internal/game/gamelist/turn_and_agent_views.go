package gamelist

import (
	"fmt"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// TurnView is one turn of a game, without its tokens.
type TurnView struct {
	Turn          int                   `json:"turn" doc:"Numbered over the game, from 0: in the order of its phases, then of its agents"`
	Phase         string                `json:"phase"`
	Agent         string                `json:"agent"`
	PolicyVersion rollout.PolicyVersion `json:"policy_version"`
	Engine        rollout.EngineID      `json:"engine"`
	FinishReason  string                `json:"finish_reason"`
	PromptTokens  int                   `json:"prompt_tokens"`
	Tokens        int                   `json:"completion_tokens"`
	MeanLogprob   float64               `json:"mean_logprob" doc:"Of the completion's tokens; natural logarithm"`
	Reward        float64               `json:"reward" doc:"Of this turn alone; 0 where only the end is rewarded"`
	Text          string                `json:"completion"`
	Timing        *rollout.Timing       `json:"timing,omitempty" doc:"Where the time of its request went; none: not known"`
}

// Time is how long the turn took, from its request to its answer; empty: not known.
func (v *TurnView) Time() string {
	if v.Timing == nil {
		return ""
	}
	return units.Seconds(v.Timing.QueueSec + v.Timing.ExecSec)
}

// Attempts is how often the turn's request was sent to an engine; empty: not known.
func (v *TurnView) Attempts() string {
	if v.Timing == nil {
		return ""
	}
	return fmt.Sprint(v.Timing.Attempts)
}

// Says is where the turn's time went, in a sentence.
func (v *TurnView) Says() string {
	t := v.Timing
	switch {
	case t == nil:
		return "not known: its game was written down again as a whole"
	case t.Attempts == 1:
		return fmt.Sprintf("%s: %s in the queue, %s at the engine, in one attempt", v.Time(), units.Seconds(t.QueueSec),
			units.Seconds(t.ExecSec))
	default:
		return fmt.Sprintf("%s: %s in the queue, %s at engines, in %d attempts", v.Time(), units.Seconds(t.QueueSec),
			units.Seconds(t.ExecSec), t.Attempts)
	}
}

// AgentView is what an agent of a game got for it.
type AgentView struct {
	Agent     string  `json:"agent"`
	Turns     int     `json:"turns"`
	Reward    float64 `json:"reward"`
	Advantage float64 `json:"advantage" doc:"Within its group; 0 before the group is committed"`
	Truncated bool    `json:"truncated"`
}

// Turns is the turns of a game, and its agents.
type Turns struct {
	Game   string      `json:"game"`
	Agents []AgentView `json:"agents"`
	Turns  []TurnView  `json:"turns"`
}

// Token is one token of a completion.
type Token struct {
	ID      int32   `json:"id"`
	Logprob float32 `json:"logprob"`
	Text    *string `json:"text,omitempty" doc:"By itself, from an engine's tokenizer; none: no engine was asked, or answered"`
}

// Turn is one turn with all that is kept of it.
type Turn struct {
	TurnView
	Game           string  `json:"game"`
	Turns          int     `json:"turns" doc:"How many the game has so far: they are numbered from 0"`
	PromptTokenIDs []int32 `json:"prompt_token_ids"`
	// Prompt is the text of the prompt's tokens, as an engine's tokenizer writes it.
	Prompt   *string `json:"prompt,omitempty"`
	NoPrompt string  `json:"prompt_unknown,omitempty" doc:"Why there is no text of the prompt"`
	Sampled  []Token `json:"tokens"`
}
