package enginesim

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// maxPrompts is vLLM's VLLM_MAX_COMPLETION_PROMPTS.
const maxPrompts = 1024

type completionRequest struct {
	samplingFields
	Prompt   *prompts `json:"prompt"`
	Logprobs *int     `json:"logprobs"`
	Suffix   *string  `json:"suffix"`
	// PromptLogprobs asks for those of the prompt's tokens; of alternatives none are given, however many are asked for.
	PromptLogprobs *int `json:"prompt_logprobs"`
}

func (e *Engine) completions(w http.ResponseWriter, r *http.Request) {
	var req completionRequest
	err := decodeSampling(w, r, &req)
	var j *job
	if err == nil {
		j, err = e.completionJob(&req)
	}
	e.answer(w, r, j, err, func(g []*generation) any {
		return completionResponse{ID: "cmpl-" + e.requestID(r), Object: "text_completion", Created: time.Now().Unix(),
			Model: j.servedName(e), Choices: e.completionChoices(&req, j, g), Usage: usageOf(j, g)}
	})
}

// answer samples a job, unless the request came to an error, runs it, and renders the result.
func (e *Engine) answer(w http.ResponseWriter, r *http.Request, j *job, err error, render func([]*generation) any) {
	var generations []*generation
	if err == nil {
		generations, err = e.sample(r.Context(), j)
	}
	if err == nil {
		err = e.run(r.Context(), newCall(generations))
	}
	if err != nil {
		e.giveUp(w, err)
		return
	}
	writeJSON(w, http.StatusOK, render(generations))
}

// giveUp answers a request whose generations did not end by themselves.
func (e *Engine) giveUp(w http.ResponseWriter, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler) // nobody listens, or nobody is to hear
	}
	fail(w, err)
}

func (j *job) servedName(e *Engine) string {
	if j.adapter == nil {
		return e.cfg.Model
	}
	return j.adapter.name
}

// completionJob checks a request in vLLM's order: shape, model, prompt lengths, parameters.
func (e *Engine) completionJob(req *completionRequest) (*job, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	adapter, err := e.adapters.lookUp(req.Model)
	if err != nil {
		return nil, err
	}
	const defaultMaxTokens = 16
	maxTokens := defaultMaxTokens
	set(&maxTokens, req.MaxTokens)
	j := &job{adapter: adapter, n: req.choices()}
	if j.prompts, err = e.encodePrompts(req.Prompt, maxTokens); err != nil {
		return nil, err
	}
	if j.params, err = e.params(&req.samplingFields, maxTokens, req.Logprobs); err != nil {
		return nil, err
	}
	j.seed, j.seeded = req.seed()
	return j, nil
}

func (req *completionRequest) check() error {
	p := req.Prompt
	switch {
	case req.Suffix != nil:
		return badRequest("", "suffix is not currently supported")
	case p != nil && p.len() == 0:
		return badRequest("", "You must pass at least one prompt")
	case p == nil || len(p.texts) == 1 && p.texts[0] == "":
		return badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
	case p.len() > maxPrompts:
		return badRequest("prompt", "prompt list length %d exceeds the maximum allowed count of %d. To increase this limit, "+
			"set the VLLM_MAX_COMPLETION_PROMPTS environment variable.", p.len(), maxPrompts)
	case req.Logprobs != nil && *req.Logprobs < 0:
		return badValue("logprobs", strconv.Itoa(*req.Logprobs), "`logprobs` must be a positive value.")
	}
	return nil
}

// encodePrompts tokenises what comes as text and checks that everything fits the model.
func (e *Engine) encodePrompts(p *prompts, maxTokens int) ([][]tokenizer.ID, error) {
	encoded := make([][]tokenizer.ID, 0, p.len())
	for _, text := range p.texts {
		encoded = append(encoded, e.tokens.Encode(text))
	}
	encoded = append(encoded, p.tokens...)
	for _, ids := range encoded {
		if len(ids) == 0 {
			return nil, badRequest("", "The decoder prompt cannot be empty")
		}
		for _, id := range ids {
			if id < 0 || int(id) >= tokenizer.Size {
				return nil, badRequest("", "Token id %d is out of vocabulary", id)
			}
		}
		if err := e.fits(ids, maxTokens); err != nil {
			return nil, err
		}
	}
	return encoded, nil
}

// fits refuses what exceeds the model's context. Like vLLM, it does not count a prompt beyond the first token too many.
func (e *Engine) fits(prompt []tokenizer.ID, maxTokens int) error {
	most := e.cfg.MaxModelLen
	if maxTokens > most {
		return badValue("max_tokens", strconv.Itoa(maxTokens), "max_tokens=%d cannot be greater than "+
			"max_model_len=max_total_tokens=%d. "+
			"Please request fewer output tokens.", maxTokens, most)
	}
	if len(prompt)+maxTokens <= most {
		return nil
	}
	counted := most - maxTokens + 1
	return badValue("input_tokens", strconv.Itoa(counted), "This model's maximum context length is %d tokens. However, "+
		"you requested %d "+
		"output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please reduce "+
		"the length of "+
		"the input prompt or the number of requested output tokens.", most, maxTokens, counted, counted+maxTokens)
}
