package enginesim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
)

// completionRequest is a request for completions of one prompt. Pointers tell absent from zero.
type completionRequest struct {
	Model          string             `json:"model"`
	Prompt         *prompt            `json:"prompt"`
	N              *int               `json:"n"`
	Stream         bool               `json:"stream"`
	StreamOptions  streamOptions      `json:"stream_options"`
	Seed           *int64             `json:"seed"`
	Temperature    *float64           `json:"temperature"`
	TopP           *float64           `json:"top_p"`
	TopK           *int               `json:"top_k"`
	MaxTokens      *int               `json:"max_tokens"`
	IgnoreEOS      bool               `json:"ignore_eos"`
	Stop           texts              `json:"stop"`
	Structured     *structuredOutputs `json:"structured_outputs"`
	ResponseFormat *responseFormat    `json:"response_format"`
	ReturnTokenIDs bool               `json:"return_token_ids"`
	Logprobs       *int               `json:"logprobs"` // 0: of the sampled token
	// PromptLogprobs asks for those of the prompt's tokens; of alternatives none are given, however many are asked for.
	PromptLogprobs *int `json:"prompt_logprobs"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// neutral are the fields that change what is sampled, or answered, in ways that are not simulated, with the value that
// changes nothing; nil: an empty list or object. Anything else is refused, not ignored.
var neutral = map[string]any{
	"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": nil,
	"allowed_token_ids": nil, "min_tokens": 0.0, "stop_token_ids": nil, "include_stop_str_in_output": false,
	"skip_special_tokens": true, "cache_salt": nil, "return_tokens_as_token_ids": false, "echo": false,
	"use_beam_search": false, "bad_words": nil, "prompt_embeds": nil, "logprob_token_ids": nil,
	"truncate_prompt_tokens": nil, "min_p": 0.0, "top_logprobs": 0.0, "suffix": nil, "tools": nil,
}

// decodeCompletion reads a request for completions into a value that holds it, or is it.
func decodeCompletion(body []byte, into any, req *completionRequest) error {
	var given map[string]any
	if err := errors.Join(unmarshal(body, into), unmarshal(body, &given)); err != nil {
		return err
	}
	if most := req.Logprobs; most != nil && *most != 0 {
		return badRequest("logprobs", "this simulated engine does not support `logprobs` of other tokens.")
	}
	for name, value := range neutral {
		same := false
		switch v := given[name].(type) {
		case nil:
			same = true
		case []any:
			same = len(v) == 0
		case map[string]any:
			same = len(v) == 0
		default:
			same = v == value
		}
		if !same {
			return badRequest(name, "this simulated engine does not support `%s`.", name)
		}
	}
	return nil
}

// Bounds of one request: maxStopStrings is vLLM's VLLM_MAX_STOP_STRINGS; vLLM's of samples is 16384.
const (
	maxStopStrings = 4
	maxSamples     = 256
)

// params checks the fields in vLLM's order and turns them into sampling parameters.
func (e *Engine) params(f *completionRequest, maxTokens int) (pseudolm.Params, error) {
	p := pseudolm.DefaultParams()
	set(&p.Temperature, f.Temperature)
	set(&p.TopP, f.TopP)
	set(&p.TopK, f.TopK)
	p.MaxTokens, p.IgnoreEOS, p.Stop = maxTokens, f.IgnoreEOS, f.Stop
	if err := checkParams(f, &p); err != nil {
		return p, err
	}
	if p.Temperature == 0 {
		p.TopP, p.TopK = 1, 0
	}
	p.TopK = max(p.TopK, 0)
	var err error
	if p.Constraint, err = e.constraint(f); err != nil {
		return p, err
	}
	if f.Seed == nil || *f.Seed == -1 { // vLLM takes -1 for none
		p.Seed = e.seed()
	} else {
		p.Seed = uint64(*f.Seed)
	}
	return p, nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// checkParams refuses what vLLM's SamplingParams refuses, in its words.
func checkParams(f *completionRequest, p *pseudolm.Params) error {
	n := 1
	set(&n, f.N)
	switch {
	case n < 1:
		return badRequest("", "n must be at least 1, got %d.", n)
	case n > maxSamples:
		return badRequest("", "n must be at most %d, got %d.", maxSamples, n)
	case n > 1 && p.Temperature == 0:
		return badRequest("", "n must be 1 when using greedy sampling, got %d.", n)
	case p.Temperature < 0:
		return badValue("temperature", pythonFloat(p.Temperature), "temperature must be non-negative, got %s.",
			pythonFloat(p.Temperature))
	case p.Temperature > 2:
		return badValue("temperature", pythonFloat(p.Temperature), "temperature must be in [0, 2], got %s.",
			pythonFloat(p.Temperature))
	case p.TopP <= 0 || p.TopP > 1:
		return badValue("top_p", pythonFloat(p.TopP), "top_p must be in (0, 1], got %s.", pythonFloat(p.TopP))
	case p.TopK < -1:
		return badRequest("", "top_k must be 0 (disable), or at least 1, got %d.", p.TopK)
	case p.MaxTokens < 1:
		return badValue("max_tokens", strconv.Itoa(p.MaxTokens), "max_tokens must be at least 1, got %d.", p.MaxTokens)
	}
	return checkStops(f.Stop)
}

func checkStops(stops []string) error {
	if len(stops) > maxStopStrings {
		return validation("body.stop", "too_long", fmt.Sprintf("List should have at most %d items after validation, not %d",
			maxStopStrings, len(stops)))
	}
	for _, s := range stops {
		if s == "" {
			return badRequest("", "stop cannot contain an empty string.")
		}
	}
	return nil
}

// pythonFloat writes a number as Python prints a float.
func pythonFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}
