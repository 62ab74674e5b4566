package rollout

import "errors"

// Code is why a request, an attempt at a game or a group came to nothing: a small enum for counts, events and
// dashboards. All are below, but for the calls of an environment, which name their failures, and the RefusalCodes.
type Code string

// Why a group is dropped though none of its games failed.
const (
	CodeStale        Code = "stale"         // the trainer has moved too far ahead of it
	CodeShrunk       Code = "shrunk"        // the run was changed to keep fewer groups outstanding
	CodeZeroVariance Code = "zero_variance" // all its rewards are equal, and the run wants no such groups
	CodeVanished     Code = "vanished"      // the run counts on it, and nobody else knows of it
	CodeGamesLost    Code = "games_lost"    // too few of its finished games are left
	CodeLost         Code = "lost"          // Redis came back older than it was, and without it
)

// Why an attempt ends. With the first four nothing has failed.
const (
	CodeCancelled     Code = "cancelled"              // whoever asked needs it no more
	CodeSuperseded    Code = "superseded"             // it was silent for too long and taken for dead: another one goes on
	CodeWorkerStopped Code = "worker_stopped"         // its worker was told to end: another one goes on
	CodeUnserved      Code = "no_engine_serves_model" // the game waits for an engine that does
	CodeTimeout       Code = "timeout"                // no answer in the time that was given for it
	CodePanic         Code = "panic"                  // in the service's own code
	CodeInternal      Code = "internal"               // anything that has no code of its own
	CodeHeartbeat     Code = "heartbeat"              // what an earlier attempt noted of its progress cannot be read
	CodeOther         Code = "other"                  // no code, or one more than are counted
)

// What the environment, or the game, is at fault for.
const (
	CodePhaseDeadline    Code = "phase_deadline"    // a phase took longer than timeouts.phase
	CodeEpisodeDeadline  Code = "episode_deadline"  // a game took longer than timeouts.episode
	CodeEnvironmentHung  Code = "environment_hung"  // a call of the environment does not return
	CodeEnvironmentPanic Code = "environment_panic" // a call of the environment panicked
	CodeEnvironment      Code = "environment"       // the run's environment cannot be made
	// An environment elsewhere does not answer: the game waits for it.
	CodeEnvironmentUnavailable Code = "environment_unavailable"
	// An environment elsewhere did not come to where it was, with the same seed and actions.
	CodeNotDeterministic Code = "environment_not_deterministic"
	// A fixed policy elsewhere does not answer, or wants patience: the game waits for it.
	CodePolicyUnavailable Code = "policy_unavailable"
	// The API of a fixed policy elsewhere refuses the request, and always will.
	CodePolicyRefuses Code = "policy_refuses"
	// The program that played the game said that it failed.
	CodeProgram  Code = "program_failed"
	CodeScenario Code = "scenario"  // the environment has no scenario for the group
	CodeResult   Code = "result"    // the environment has no reward for an agent that took part
	CodeBadTurn  Code = "bad_turn"  // a turn that cannot be trained on
	CodeNoPolicy Code = "no_policy" // an agent is to be played by a policy that the run does not have
)

// How a request fails at the dispatcher.
const (
	CodeQueueFull Code = "queue_full" // there or, for a run that holds the longest queue, while it waited
	CodeDeadline  Code = "deadline"   // still queued when its deadline passed
	CodeNoEngine  Code = "no_engine"  // for too long, no engine served its model
	CodeExhausted Code = "exhausted"  // failed as often as is allowed
	CodeRefused   Code = "refused"    // by two engines, or by the only one that has its model
	CodeClosed    Code = "closed"     // the dispatcher has ended
)

// How a request fails at an engine; CodeTimeout and CodeCancelled are others.
const (
	CodeEngineGone    Code = "engine_gone"    // no connection, or it broke before an answer came
	CodeEngineDead    Code = "engine_dead"    // EngineCore is gone; the process will follow
	CodeEngineError   Code = "engine_error"   // any other 5xx
	CodeEngineAddress Code = "engine_address" // nothing may be sent to the engine's address
	CodeOverloaded    Code = "overloaded"     // 429 or 503: slow down; not a fault
	CodeUnknownModel  Code = "unknown_model"  // 404: typically a restarted engine that lost its adapters
	CodeWrongModel    Code = "wrong_model"    // answered by another model than asked: silently the base model
	CodeAborted       Code = "aborted"        // stopped half-way by a pause or an abort: no sample
	CodeBadAnswer     Code = "bad_answer"     // incomplete or inconsistent: truncated, no logprobs, odd lengths
	CodeBadRequest    Code = "bad_request"    // the engine refuses this request, and always will
	CodeUnauthorized  Code = "unauthorized"   // the API key is missing or wrong
	CodeNotAnEngine   Code = "not_an_engine"  // no such route: something else listens there
)

// Why an adapter is not loaded.
const (
	CodeLoRADisabled    Code = "lora_disabled"      // run-time loading of adapters is off
	CodeAdapterMissing  Code = "adapter_missing"    // nothing to load at the path
	CodeAdapterConflict Code = "adapter_conflict"   // the name serves other weights already
	CodeNotListed       Code = "adapter_not_listed" // loaded, yet the engine does not list it
	CodeRankTooHigh     Code = "rank_too_high"      // above the engine's --max-lora-rank
	CodeBadAdapter      Code = "bad_adapter"        // the engine cannot serve it: DoRA, bias, a broken config
)

// CodeOf is the code of the first Failure in err's chain, or "".
func CodeOf(err error) Code {
	var f *Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}
