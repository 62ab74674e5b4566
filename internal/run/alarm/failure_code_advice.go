package alarm

import (
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Advice says, for a terminal, what to do about attempts that fail with a code. Where nothing better is known, it names
// the events to look at.
func Advice(code rollout.Code, spec runspec.Spec) string {
	t := spec.Timeouts
	switch code {
	case rollout.CodeTimeout, rollout.CodeDeadline:
		return fmt.Sprintf("raise timeouts.completion (%v) or timeouts.episode (%v) in the spec of another run, "+
			"or ask for shorter answers", t.Completion, t.Episode)
	case rollout.CodePhaseDeadline:
		return fmt.Sprintf("raise timeouts.phase (%v) in the spec of another run, or add engines: millrace engine add URL",
			t.PhaseLimit())
	case rollout.CodeEpisodeDeadline:
		return fmt.Sprintf("raise timeouts.episode (%v) in the spec of another run, or play shorter games", t.Episode)
	case rollout.CodeEnvironmentHung:
		return fmt.Sprintf("raise timeouts.phase (%v) in the spec of another run, or fix the environment", t.PhaseLimit())
	case rollout.CodeEnvironmentUnavailable:
		return "start the environment's servers, or the verifier's webhook, and let them hold as many sessions as games " +
			"are played; games go on then"
	case rollout.CodePolicyUnavailable:
		return "look at the API of the policy elsewhere: its limits, its credit, its own log; games go on when it answers"
	case rollout.CodePolicyRefuses:
		return "check url, model and max_tokens of the policy elsewhere, and its line in engine_urls.keys_file of the workers"
	case rollout.CodeNotDeterministic:
		return "the environment must draw all chance from the seed of its reset: else no game survives its worker"
	case rollout.CodeEnvironmentPanic, rollout.CodeScenario, rollout.CodeResult, rollout.CodeBadTurn:
		return "the environment, or its verifier, is at fault: fix it; after a panic the worker's log has the stack"
	case rollout.CodeEnvironment, rollout.CodeNoPolicy:
		return "the spec asks for what cannot be made: check environment and policies, and start another run"
	case rollout.CodeUnknownModel, rollout.CodeNoEngine, rollout.CodeUnserved, rollout.CodeWrongModel:
		return "see which engines serve the model: millrace engine list"
	case rollout.CodeBadRequest, rollout.CodeRefused:
		return "the engines refuse the requests: compare sampling.max_tokens and the prompts with their context length"
	case rollout.CodeUnauthorized:
		return "the engines refuse the key: set MILLRACE_ENGINE_API_KEY for the workers"
	case rollout.CodeEngineAddress:
		return "nothing may be sent to the address of an engine or a policy elsewhere: see engine_urls in the " +
			"service configuration"
	case rollout.CodeNotAnEngine:
		return "something else listens at an engine's address: millrace engine list, and remove it"
	case rollout.CodeEngineGone, rollout.CodeEngineDead, rollout.CodeEngineError, rollout.CodeExhausted:
		return "look at the engine: millrace engine list says since when and why, its own log says more"
	case rollout.CodeBadAnswer, rollout.CodeAborted:
		return "the engine's answers cannot be trained on: look at its version and its own log"
	case rollout.CodeOverloaded, rollout.CodeQueueFull:
		return "the engines have too much to do: add one (millrace engine add URL), or lower buffer.depth"
	case rollout.CodeHeartbeat, rollout.CodePanic, rollout.CodeInternal:
		return "this is a fault of Millrace: the worker's log has it; please report it"
	case rollout.CodeCancelled, rollout.CodeSuperseded, rollout.CodeWorkerStopped:
		return "nothing: another attempt goes on, or the group needed the game no more"
	}
	return ""
}

// advice is what to do about attempts that all fail with a code, and where to see them.
func advice(code rollout.Code, spec runspec.Spec) string {
	events := fmt.Sprintf("see: millrace events %s --code %s", spec.Name, code)
	if text := Advice(code, spec); text != "" {
		return text + "; " + events
	}
	return events
}
