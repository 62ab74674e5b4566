package enginesim

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
)

// samplingFields are the fields that say how to sample. Pointers tell absent from zero.
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
}

// neutral are the fields that change what is sampled, or answered, in ways that are not simulated, with the value that
// changes nothing; nil: an empty list or object. Anything else is refused, not ignored.
var neutral = map[string]any{
	"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": nil,
	"allowed_token_ids": nil, "min_tokens": 0.0, "stop_token_ids": nil, "include_stop_str_in_output": false,
	"skip_special_tokens": true, "cache_salt": nil, "return_tokens_as_token_ids": false, "echo": false,
	"use_beam_search": false, "bad_words": nil, "prompt_embeds": nil, "logprob_token_ids": nil,
	"truncate_prompt_tokens": nil, "stream": false, "stream_options": nil,
}

// decodeSampling reads a request for completions.
func decodeSampling(w http.ResponseWriter, r *http.Request, into any) error {
	var given map[string]any
	body, err := readBody(w, r)
	if err == nil {
		err = errors.Join(unmarshal(body, into), unmarshal(body, &given))
	}
	if err != nil {
		return err
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
