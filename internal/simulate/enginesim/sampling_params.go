package enginesim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
)

// samplingFields are the fields that completions and chat completions share. Pointers tell
// absent from zero.
type samplingFields struct {
	Model          string             `json:"model"`
	N              *int               `json:"n"`
	Seed           *int64             `json:"seed"`
	Temperature    *float64           `json:"temperature"`
	TopP           *float64           `json:"top_p"`
	TopK           *int               `json:"top_k"`
	MinP           *float64           `json:"min_p"`
	MaxTokens      *int               `json:"max_tokens"`
	IgnoreEOS      bool               `json:"ignore_eos"`
	Stop           texts              `json:"stop"`
	Structured     *structuredOutputs `json:"structured_outputs"`
	ResponseFormat *responseFormat    `json:"response_format"`
	ReturnTokenIDs bool               `json:"return_token_ids"`
	Stream         bool               `json:"stream"`
	StreamOptions  *streamOptions     `json:"stream_options"`

	unsupportedFields
}

// unsupportedFields change what is sampled, or answered, in ways that are not simulated. Anything but the value that
// changes nothing is refused, not ignored.
type unsupportedFields struct {
	RepetitionPenalty *float64           `json:"repetition_penalty"`
	PresencePenalty   float64            `json:"presence_penalty"`
	FrequencyPenalty  float64            `json:"frequency_penalty"`
	LogitBias         map[string]float64 `json:"logit_bias"`
	AllowedTokenIDs   []int32            `json:"allowed_token_ids"`
	MinTokens         int                `json:"min_tokens"`
	StopTokenIDs      []int32            `json:"stop_token_ids"`
	IncludeStop       bool               `json:"include_stop_str_in_output"`
	SkipSpecial       *bool              `json:"skip_special_tokens"`
	CacheSalt         *string            `json:"cache_salt"`
	TokensAsIDs       bool               `json:"return_tokens_as_token_ids"`
	Echo              bool               `json:"echo"`
	PromptLogprobs    *int               `json:"prompt_logprobs"`
	BeamSearch        bool               `json:"use_beam_search"`
	BadWords          []string           `json:"bad_words"`
	PromptEmbeds      *string            `json:"prompt_embeds"`
	LogprobTokenIDs   []int32            `json:"logprob_token_ids"`
	TruncatePrompt    *int               `json:"truncate_prompt_tokens"`
}

func (f *unsupportedFields) check() error {
	for name, used := range map[string]bool{
		"repetition_penalty": f.RepetitionPenalty != nil && *f.RepetitionPenalty != 1,
		"presence_penalty":   f.PresencePenalty != 0, "frequency_penalty": f.FrequencyPenalty != 0,
		"logit_bias": len(f.LogitBias) > 0, "allowed_token_ids": f.AllowedTokenIDs != nil,
		"min_tokens": f.MinTokens != 0, "stop_token_ids": len(f.StopTokenIDs) > 0,
		"include_stop_str_in_output": f.IncludeStop, "skip_special_tokens": f.SkipSpecial != nil && !*f.SkipSpecial,
		"cache_salt": f.CacheSalt != nil, "return_tokens_as_token_ids": f.TokensAsIDs,
		"echo": f.Echo, "prompt_logprobs": f.PromptLogprobs != nil,
		"use_beam_search": f.BeamSearch, "bad_words": len(f.BadWords) > 0, "logprob_token_ids": len(f.LogprobTokenIDs) > 0,
		"prompt_embeds": f.PromptEmbeds != nil, "truncate_prompt_tokens": f.TruncatePrompt != nil,
	} {
		if used {
			return badRequest(name, "this simulated engine does not support `%s`.", name)
		}
	}
	return nil
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// vLLM's limits on one request.
const (
	maxStopStrings = 4     // VLLM_MAX_STOP_STRINGS
	maxSequences   = 16384 // VLLM_MAX_N_SEQUENCES
)

// params checks the fields in vLLM's order and turns them into sampling parameters. logprobs is
// nil for none.
func (e *Engine) params(f *samplingFields, maxTokens int, logprobs *int) (pseudolm.Params, error) {
	p := pseudolm.DefaultParams()
	set(&p.Temperature, f.Temperature)
	set(&p.TopP, f.TopP)
	set(&p.TopK, f.TopK)
	set(&p.MinP, f.MinP)
	set(&p.Logprobs, logprobs)
	p.MaxTokens, p.IgnoreEOS, p.Stop = maxTokens, f.IgnoreEOS, f.Stop
	if err := e.checkParams(f, &p); err != nil {
		return p, err
	}
	if p.Temperature == 0 {
		p.TopP, p.TopK, p.MinP = 1, 0, 0
	}
	p.TopK = max(p.TopK, 0)
	var err error
	p.Constraint, err = e.constraint(f)
	return p, err
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// checkParams refuses what vLLM's SamplingParams refuses, in its words.
func (e *Engine) checkParams(f *samplingFields, p *pseudolm.Params) error {
	n := f.choices()
	switch {
	case n < 1:
		return badRequest("", "n must be at least 1, got %d.", n)
	case n > maxSequences:
		return badRequest("", "n must be at most %d, got %d. To increase this limit, set the VLLM_MAX_N_SEQUENCES "+
			"environment variable.", maxSequences, n)
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
	case p.MinP < 0 || p.MinP > 1:
		return badRequest("", "min_p must be in [0, 1], got %s.", pythonFloat(p.MinP))
	case p.MaxTokens < 1:
		return badValue("max_tokens", strconv.Itoa(p.MaxTokens), "max_tokens must be at least 1, got %d.", p.MaxTokens)
	case p.Logprobs > e.cfg.MaxLogprobs:
		return badValue("logprobs", strconv.Itoa(p.Logprobs), "Requested sample logprobs of %d, which is greater than max "+
			"allowed: %d", p.Logprobs, e.cfg.MaxLogprobs)
	case n > 1 && p.Temperature == 0:
		return badRequest("", "n must be 1 when using greedy sampling, got %d.", n)
	case f.StreamOptions != nil && !f.Stream:
		return badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	if err := f.check(); err != nil {
		return err
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

func (f *samplingFields) choices() int {
	if f.N == nil {
		return 1
	}
	return *f.N
}

// seed tells the request's seed; vLLM takes -1 for none.
func (f *samplingFields) seed() (uint64, bool) {
	if f.Seed == nil || *f.Seed == -1 {
		return 0, false
	}
	return uint64(*f.Seed), true
}

// pythonFloat writes a number as Python prints a float.
func pythonFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}
