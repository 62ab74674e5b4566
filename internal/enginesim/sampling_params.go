package enginesim

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/enginesim/tokenizer"
)

// samplingFields are the fields that completions and chat completions share. Pointers tell
// absent from zero.
type samplingFields struct {
	Model             string             `json:"model"`
	N                 *int               `json:"n"`
	Seed              *int64             `json:"seed"`
	Temperature       *float64           `json:"temperature"`
	TopP              *float64           `json:"top_p"`
	TopK              *int               `json:"top_k"`
	MinP              *float64           `json:"min_p"`
	RepetitionPenalty *float64           `json:"repetition_penalty"`
	PresencePenalty   *float64           `json:"presence_penalty"`
	FrequencyPenalty  *float64           `json:"frequency_penalty"`
	LogitBias         map[string]float64 `json:"logit_bias"`
	AllowedTokenIDs   []int32            `json:"allowed_token_ids"`
	MaxTokens         *int               `json:"max_tokens"`
	MinTokens         int                `json:"min_tokens"`
	IgnoreEOS         bool               `json:"ignore_eos"`
	Stop              texts              `json:"stop"`
	StopTokenIDs      []int32            `json:"stop_token_ids"`
	IncludeStop       bool               `json:"include_stop_str_in_output"`
	SkipSpecial       *bool              `json:"skip_special_tokens"`
	Structured        *structuredOutputs `json:"structured_outputs"`
	ResponseFormat    *responseFormat    `json:"response_format"`
	Priority          int64              `json:"priority"`
	CacheSalt         *string            `json:"cache_salt"`
	RequestID         string             `json:"request_id"`
	ReturnTokenIDs    bool               `json:"return_token_ids"`
	TokensAsIDs       bool               `json:"return_tokens_as_token_ids"`
	Stream            bool               `json:"stream"`
	StreamOptions     *streamOptions     `json:"stream_options"`
	unsupportedFields
}

// unsupportedFields change what is sampled in ways that are not simulated. They are refused, not
// ignored.
type unsupportedFields struct {
	BeamSearch      bool            `json:"use_beam_search"`
	BadWords        []string        `json:"bad_words"`
	PromptEmbeds    json.RawMessage `json:"prompt_embeds"`
	LogprobTokenIDs []int32         `json:"logprob_token_ids"`
	TruncatePrompt  *int            `json:"truncate_prompt_tokens"`
}

func (f *unsupportedFields) check() error {
	for name, used := range map[string]bool{
		"use_beam_search": f.BeamSearch, "bad_words": len(f.BadWords) > 0, "logprob_token_ids": len(f.LogprobTokenIDs) > 0,
		"prompt_embeds":          len(f.PromptEmbeds) > 0 && string(f.PromptEmbeds) != "null",
		"truncate_prompt_tokens": f.TruncatePrompt != nil,
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
	set(&p.RepetitionPenalty, f.RepetitionPenalty)
	set(&p.PresencePenalty, f.PresencePenalty)
	set(&p.FrequencyPenalty, f.FrequencyPenalty)
	set(&p.Logprobs, logprobs)
	p.MaxTokens, p.MinTokens, p.IgnoreEOS = maxTokens, f.MinTokens, f.IgnoreEOS
	p.Stop, p.StopTokens, p.IncludeStop = f.Stop, f.StopTokenIDs, f.IncludeStop
	p.Allowed = f.AllowedTokenIDs
	p.KeepControl = f.SkipSpecial != nil && !*f.SkipSpecial
	p.RawLogprobs = e.cfg.LogprobsMode == RawLogprobs
	if err := e.checkParams(f, &p); err != nil {
		return p, err
	}
	if p.Temperature == 0 {
		p.TopP, p.TopK, p.MinP = 1, 0, 0
	}
	p.TopK = max(p.TopK, 0)
	var err error
	if p.LogitBias, err = logitBias(f.LogitBias); err != nil {
		return p, err
	}
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
	case math.Abs(p.PresencePenalty) > 2:
		return badRequest("", "presence_penalty must be in [-2, 2], got %s.", pythonFloat(p.PresencePenalty))
	case math.Abs(p.FrequencyPenalty) > 2:
		return badRequest("", "frequency_penalty must be in [-2, 2], got %s.", pythonFloat(p.FrequencyPenalty))
	case p.RepetitionPenalty <= 0:
		return badRequest("", "repetition_penalty must be greater than zero, got %s.", pythonFloat(p.RepetitionPenalty))
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
	case p.MinTokens < 0:
		return badRequest("", "min_tokens must be greater than or equal to 0, got %d.", p.MinTokens)
	case p.MinTokens > p.MaxTokens:
		return badRequest("", "min_tokens must be less than or equal to max_tokens=%d, got %d.", p.MaxTokens, p.MinTokens)
	case p.Logprobs > e.cfg.MaxLogprobs:
		return badValue("logprobs", strconv.Itoa(p.Logprobs), "Requested sample logprobs of %d, which is greater than max "+
			"allowed: %d", p.Logprobs, e.cfg.MaxLogprobs)
	case n > 1 && p.Temperature == 0:
		return badRequest("", "n must be 1 when using greedy sampling, got %d.", n)
	case f.CacheSalt != nil && *f.CacheSalt == "":
		return validation("body.cache_salt", "string_too_short", "String should have at least 1 character")
	case f.StreamOptions != nil && !f.Stream:
		return badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	if err := f.check(); err != nil {
		return err
	}
	return e.checkTokens(f)
}

func (e *Engine) checkTokens(f *samplingFields) error {
	if len(f.Stop) > maxStopStrings {
		return validation("body.stop", "too_long", fmt.Sprintf("List should have at most %d items after validation, not %d",
			maxStopStrings, len(f.Stop)))
	}
	for _, s := range f.Stop {
		if s == "" {
			return badRequest("", "stop cannot contain an empty string.")
		}
	}
	if f.AllowedTokenIDs != nil && len(f.AllowedTokenIDs) == 0 {
		return badValue("allowed_token_ids", "[]", "allowed_token_ids is not None and empty!")
	}
	for _, id := range f.AllowedTokenIDs {
		if id < 0 || int(id) >= tokenizer.Size {
			return badRequest("", "allowed_token_ids contains out-of-vocab token id!")
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

// salt keeps prompts of different salts apart in the prefix cache.
func (f *samplingFields) salt() string {
	if f.CacheSalt == nil {
		return ""
	}
	return *f.CacheSalt
}

// seed tells the request's seed; vLLM takes -1 for none.
func (f *samplingFields) seed() (uint64, bool) {
	if f.Seed == nil || *f.Seed == -1 {
		return 0, false
	}
	return uint64(*f.Seed), true
}

func logitBias(fields map[string]float64) (map[tokenizer.ID]float64, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	bias := make(map[tokenizer.ID]float64, len(fields))
	for key, v := range fields {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, badRequest("logit_bias", "logit_bias contains key(s) that cannot be converted to integer token "+
				"IDs: ['%s']", key)
		}
		if id < 0 || int(id) >= tokenizer.Size {
			return nil, badRequest("logit_bias", "token_id(s) [%d] in logit_bias contain out-of-vocab token ids. Vocabulary "+
				"size: %d", id, tokenizer.Size)
		}
		bias[tokenizer.ID(id)] = min(100, max(-100, v))
	}
	return bias, nil
}

// pythonFloat writes a number as Python prints a float.
func pythonFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}
