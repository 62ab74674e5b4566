package episode

import (
	"cmp"
	"fmt"
	"hash/fnv"

	"github.com/millrace/millrace/internal/rollout"
)

// charsPerToken estimates a prompt's length for load balancing, until its engine has counted it.
const charsPerToken = 4

func request(plan Plan, phase string, index int, prompt Prompt) rollout.Request {
	sampling := plan.Sampling
	if prompt.MaxTokens > 0 {
		sampling.MaxTokens = min(sampling.MaxTokens, prompt.MaxTokens)
	}
	model, version := plan.Model, plan.Version
	elsewhere := plan.Elsewhere[prompt.Policy]
	switch {
	case elsewhere.URL != "":
		// The environment's limit is that of the bare answer, around which a chat model may have words.
		model, version, sampling.MaxTokens = elsewhere.Model, 0, cmp.Or(elsewhere.MaxTokens, plan.Sampling.MaxTokens)
	case prompt.Policy != "":
		model, version = plan.Fixed[prompt.Policy], 0
	}
	id := rollout.TurnID{EpisodeRef: plan.Ref, WarmUp: plan.warmUp, Phase: index,
		Agent: prompt.Agent}.RequestID(plan.Attempt)
	return rollout.Request{
		ID:           id,
		Episode:      plan.Ref,
		Agent:        prompt.Agent,
		Phase:        phase,
		Model:        model,
		URL:          elsewhere.URL,
		Version:      version,
		Prompt:       prompt.Text,
		Messages:     prompt.Messages,
		Tools:        prompt.Tools,
		Constraint:   prompt.Constraint,
		Sampling:     sampling,
		Seed:         requestSeed(plan.Seed, id),
		Stop:         prompt.Stop,
		Timeout:      plan.Timeouts.Completion,
		PromptTokens: promptBytes(prompt) / charsPerToken,
		// OutputTokens stays unknown: what the run's answers were like lately tells more than the longest one allowed.
	}
}

func promptBytes(prompt Prompt) int {
	n := len(prompt.Text) + len(prompt.Tools)
	for _, m := range prompt.Messages {
		n += len(m.Content) + len(m.ToolCalls)
	}
	return n
}

// requestSeed gives every turn of every attempt its own stream, in the non-negative range that engines accept.
func requestSeed(seed int64, id string) int64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s", seed, id)
	return int64(h.Sum64() >> 1)
}
