package dispatch

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// ID names a request within one Scheduler. The driver chooses it and never uses it twice.
type ID uint64

// Request is the part of a completion request that the scheduler uses.
type Request struct {
	ID      ID                 `json:"id"`
	Episode rollout.EpisodeRef `json:"episode"`
	Model   string             `json:"model"` // adapter, or base model; only engines that list it are eligible
	// PromptTokens and OutputTokens estimate the work. 0: unknown; the mean of the run's recent answers stands in.
	PromptTokens int `json:"prompt_tokens,omitempty"`
	OutputTokens int `json:"output_tokens,omitempty"`
	// Home is the engine where a game that has not begun should begin; workers agree on it per group. Empty: there is
	// no agreement.
	Home rollout.EngineID `json:"home,omitempty"`
	// Deadline ends the wait in the queue; zero: none. A request in flight is no longer bound by it.
	Deadline time.Time `json:"deadline,omitzero"`
}

// Event is what happened.
//
//sumtype:decl
type Event interface{ event() string }

// EventName is what logs call an event.
func EventName(ev Event) string { return ev.event() }

// Submit offers a request. It is held from now on, until it is answered, cancelled or rejected.
type Submit struct{ Request }

// Cancel withdraws a request, wherever it is. One that is not held is ignored.
type Cancel struct {
	ID ID `json:"id"`
}

// TryEnded reports how a try ended. After an abandoned try only an answer counts, and ends the request. The end of a
// request that is no longer held is ignored.
type TryEnded struct {
	ID           ID            `json:"id"`
	Try          int           `json:"try"` // as in Send
	Outcome      Outcome       `json:"outcome"`
	PromptTokens int           `json:"prompt_tokens,omitempty"` // true usage, when Served
	OutputTokens int           `json:"output_tokens,omitempty"`
	RetryAfter   time.Duration `json:"retry_after_ns,omitempty"` // of an Overloaded engine; 0: unknown
	Code         rollout.Code  `json:"code,omitempty"`           // of a failure, for the reason that a breaker gives
}

// EngineUp says that an engine takes requests for these models, Limit at a time. Saying it again updates the
// engine and keeps what is known of its behaviour.
type EngineUp struct {
	ID       rollout.EngineID `json:"id"`
	Limit    int              `json:"limit"`
	Models   []string         `json:"models,omitempty"`
	Adapters []string         `json:"adapters,omitempty"` // models as well, each of which takes a slot while in use
	Slots    int              `json:"slots,omitempty"`    // adapters that fit into one of its batches; 0: not known
	// Elsewhere is how many requests other workers have in flight there. It decides between engines that are equal
	// otherwise.
	Elsewhere int `json:"elsewhere,omitempty"`
}

// EngineSampled passes on what an engine said of its own load. It only corrects what the scheduler knows from its own
// requests: without samples, or with old ones, dispatch goes on.
type EngineSampled struct {
	ID   rollout.EngineID `json:"id"`
	Load Load             `json:"load"`
}

// Load is an engine's load as the engine saw it.
type Load struct {
	At          time.Time `json:"at,omitzero"`       // by the sampler's clock; an unchanged time is no news
	Running     float64   `json:"running,omitempty"` // requests
	Waiting     float64   `json:"waiting,omitempty"`
	KVUsage     float64   `json:"kv_usage,omitempty"`    // 0..1
	Preemptions float64   `json:"preemptions,omitempty"` // since the sample before
	// LifeAt is the latest sign of life that was seen: its token counter moved, or it answered a canary. Only a
	// later one than before tells something new.
	LifeAt time.Time `json:"life_at,omitzero"`
}

// EngineDrain stops dispatch to an engine. What it has, it finishes; then it is forgotten.
type EngineDrain struct {
	ID rollout.EngineID `json:"id"`
}

// EngineDown says that an engine is lost. What it had is abandoned and dispatched again elsewhere.
type EngineDown struct {
	ID rollout.EngineID `json:"id"`
}

// EngineProbed answers a Probe.
type EngineProbed struct {
	ID rollout.EngineID `json:"id"`
	OK bool             `json:"ok"`
}

// RunRules says how a run wants to be dispatched. Without them the zero Rules hold.
type RunRules struct {
	Run   rollout.RunName  `json:"run"`
	Rules runspec.Dispatch `json:"rules"`
}

// RunOver says that no more requests of a run will come. It is forgotten when the last one has left.
type RunOver struct {
	Run rollout.RunName `json:"run"`
}

// Tick only lets time pass.
type Tick struct{}

func (Submit) event() string        { return "submit" }
func (Cancel) event() string        { return "cancel" }
func (TryEnded) event() string      { return "try_ended" }
func (EngineUp) event() string      { return "engine_up" }
func (EngineSampled) event() string { return "engine_sampled" }
func (EngineDrain) event() string   { return "engine_drain" }
func (EngineDown) event() string    { return "engine_down" }
func (EngineProbed) event() string  { return "engine_probed" }
func (RunRules) event() string      { return "run_rules" }
func (RunOver) event() string       { return "run_over" }
func (Tick) event() string          { return "tick" }

// Command is what must be done.
//
//sumtype:decl
type Command interface{ command() string }

// CommandName is what logs call a command.
func CommandName(c Command) string { return c.command() }

// Send gives a request to an engine. The driver answers with TryEnded and the same Try.
type Send struct {
	ID     ID               `json:"id"`
	Engine rollout.EngineID `json:"engine"`
	Try    int              `json:"try"` // 1 for the first
}

// Abandon cancels a try: its answer, should it still come, is not wanted.
type Abandon struct {
	ID     ID               `json:"id"`
	Engine rollout.EngineID `json:"engine"`
	Try    int              `json:"try"`
}

// Reject ends a request without an answer.
type Reject struct {
	ID     ID           `json:"id"`
	Reason rollout.Code `json:"reason"`
}

// Probe asks whether an engine lives. The driver answers with EngineProbed, in bounded time.
type Probe struct {
	Engine rollout.EngineID `json:"engine"`
}

// Opened reports that an engine gets no requests for now: none of one run, or none at all if Run is empty. It needs no
// action.
type Opened struct {
	Engine rollout.EngineID `json:"engine"`
	Run    rollout.RunName  `json:"run,omitempty"`
	Reason string           `json:"reason,omitempty"`
}

// Closed reports the end of what Opened began.
type Closed struct {
	Engine rollout.EngineID `json:"engine"`
	Run    rollout.RunName  `json:"run,omitempty"`
}

// Wake asks for an event, such as a Tick, at a time. It replaces earlier ones.
type Wake struct {
	At time.Time `json:"at"`
}

func (Send) command() string    { return "send" }
func (Abandon) command() string { return "abandon" }
func (Reject) command() string  { return "reject" }
func (Probe) command() string   { return "probe" }
func (Opened) command() string  { return "opened" }
func (Closed) command() string  { return "closed" }
func (Wake) command() string    { return "wake" }
