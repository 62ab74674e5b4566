package rollout

import "encoding/json"

// Message is one message of a chat, in OpenAI's form.
type Message struct {
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"` // which of them a message with the role tool answers
}

// Request asks for one turn: one completion of one prompt by one policy version.
type Request struct {
	ID      string     `json:"id"` // TurnID.RequestID
	Episode EpisodeRef `json:"episode"`
	Agent   string     `json:"agent"`
	Phase   string     `json:"phase"`
	Model   string     `json:"model"` // adapter name, or the base model's name
	// URL is the base of the chat API that serves the model; empty: the fleet's engines do.
	URL     string `json:"url,omitempty"`
	Version PolicyVersion
	Prompt  string `json:"prompt"`
	// Messages are the prompt where there are any: the engine puts them into the model's chat template.
	Messages []Message `json:"messages,omitempty"`
	// Tools are what the chat template tells the model that it may call: a list in OpenAI's form.
	Tools      json.RawMessage `json:"tools,omitempty"`
	Constraint Constraint      `json:"constraint,omitzero"`
	Sampling   Sampling        `json:"sampling"`
	Seed       int64           `json:"seed"`
	Stop       []string        `json:"stop,omitempty"`
	// Timeout bounds the execution on an engine, from dispatch to the last byte of the answer.
	Timeout Duration `json:"timeout"`
	// PromptTokens and OutputTokens estimate the work, for load balancing; replaced by usage. 0 is unknown: what the
	// run's requests were like lately stands in.
	PromptTokens int `json:"prompt_tokens,omitempty"`
	OutputTokens int `json:"output_tokens,omitempty"`
}

// ConstraintKind says how a completion is forced into a language.
type ConstraintKind string

// The constraint kinds; the zero kind is no constraint.
const (
	Unconstrained     ConstraintKind = ""
	RegexConstraint   ConstraintKind = "regex"
	ChoiceConstraint  ConstraintKind = "choice"
	GrammarConstraint ConstraintKind = "grammar" // EBNF
)

// Constraint is the language that a completion must be a word of.
type Constraint struct {
	Kind    ConstraintKind `json:"kind,omitempty"`
	Pattern string         `json:"pattern,omitempty"` // of a regex or a grammar
	Choices []string       `json:"choices,omitempty"`
}

// IsZero reports that anything may be answered.
func (c Constraint) IsZero() bool { return c.Kind == Unconstrained }

// Finish reasons of a completion. Anything else is not a finished turn.
const (
	FinishStop   = "stop"
	FinishLength = "length"
)

// Completion is an engine's answer to a Request. TokenIDs and Logprobs have equal length.
type Completion struct {
	Text           string    `json:"text"`
	PromptTokenIDs []int32   `json:"prompt_token_ids"`
	TokenIDs       []int32   `json:"token_ids"`
	Logprobs       []float32 `json:"logprobs"` // natural log, of the distribution sampled from
	FinishReason   string    `json:"finish_reason"`
	Model          string    `json:"model"`         // as the engine named it
	CachedTokens   int       `json:"cached_tokens"` // prompt tokens found in the prefix cache; -1: not told
	Engine         EngineID  `json:"engine"`
	Timing         Timing    `json:"timing"`
	// Counted is what an answer cost that was passed on unread, without its ids here.
	Counted *Usage `json:"-"`
}

// Usage is what the answer cost.
func (c *Completion) Usage() Usage {
	if c.Counted != nil {
		return *c.Counted
	}
	return Usage{
		Requests:     1,
		InputTokens:  int64(len(c.PromptTokenIDs)),
		OutputTokens: int64(len(c.TokenIDs)),
		CachedTokens: int64(max(c.CachedTokens, 0)),
		ExecSec:      c.Timing.ExecSec,
		QueueSec:     c.Timing.QueueSec,
	}
}

// Timing is where a request's time went, in seconds.
type Timing struct {
	QueueSec float64          `json:"queue_seconds" doc:"In the dispatcher's queue"`
	ExecSec  float64          `json:"exec_seconds" doc:"At engines, failed attempts included"`
	Attempts int              `json:"attempts" doc:"How often it was sent to an engine"`
	Failed   []RequestFailure `json:"failed_attempts,omitempty" doc:"The attempts before the answered one, the latest if they were many"`
}

// RequestFailure is one sending of a request to an engine that brought no answer.
type RequestFailure struct {
	Engine EngineID `json:"engine"`
	Code   Code     `json:"code"`
	Sec    float64  `json:"seconds"`
}

// maxFailedAttempts bounds the attempts that a request remembers.
const maxFailedAttempts = 8

// Fail adds an attempt that failed.
func (t *Timing) Fail(attempt RequestFailure) {
	if len(t.Failed) == maxFailedAttempts {
		t.Failed = t.Failed[1:]
	}
	t.Failed = append(t.Failed, attempt)
}
