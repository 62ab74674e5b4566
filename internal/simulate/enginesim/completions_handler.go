package enginesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

func (e *Engine) completions(w http.ResponseWriter, r *http.Request) {
	var req completionRequest
	body, err := readBody(w, r)
	if err == nil {
		err = decodeCompletion(body, &req, &req)
	}
	e.answer(w, r, completionForm, &req, err)
}

// answer samples what is asked for, unless the request came to an error, runs it, and answers in the form of its route.
// Of a stream each completion is one event, sent when it ends.
func (e *Engine) answer(w http.ResponseWriter, r *http.Request, f form, req *completionRequest, err error) {
	var j *job
	if err == nil {
		j, err = e.completionJob(req)
	}
	var all []*generation
	if err == nil {
		all, err = e.sample(j)
	}
	if err != nil {
		fail(w, err)
		return
	}
	out := f.head(e, req, j, r)
	if req.Stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		out.Object = f.event
	}
	begun := false
	event := func() {
		text, _ := json.Marshal(out) // made of strings and finite numbers
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
		_ = http.NewResponseController(w).Flush() // a client that left is noticed by its context
		begun = true
	}
	err = e.run(r.Context(), all, func(i int, g *generation) {
		choice := f.choice(e, req, j, g, i)
		if !req.Stream {
			out.Choices = append(out.Choices, choice)
			return
		}
		out.Choices = []any{choice}
		event()
	})
	switch {
	case err != nil && begun:
		panic(http.ErrAbortHandler) // the stream breaks off
	case err != nil:
		e.giveUp(w, err)
	case req.Stream:
		if req.StreamOptions.IncludeUsage {
			out.Choices, out.Usage = []any{}, usageOf(all)
			event()
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	default:
		out.Usage = usageOf(all)
		writeJSON(w, http.StatusOK, out)
	}
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
	j := &job{adapter: adapter, n: 1}
	set(&j.n, req.N)
	if j.prompt, err = e.encodePrompt(req.Prompt, maxTokens); err != nil {
		return nil, err
	}
	j.params, err = e.params(req, maxTokens)
	return j, err
}

func (req *completionRequest) check() error {
	switch p := req.Prompt; {
	case req.StreamOptions != (streamOptions{}) && !req.Stream:
		return badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
	case p != nil && p.tokens != nil && len(p.tokens) == 0:
		return badRequest("", "You must pass at least one prompt")
	case p == nil || p.tokens == nil && p.text == "":
		return badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
	}
	return nil
}

// encodePrompt tokenises a text and checks that everything fits the model.
func (e *Engine) encodePrompt(p *prompt, maxTokens int) ([]tokenizer.ID, error) {
	ids := p.tokens
	if ids == nil {
		ids = e.tokens.Encode(p.text)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= tokenizer.Size {
			return nil, badRequest("", "Token id %d is out of vocabulary", id)
		}
	}
	return ids, e.fits(ids, maxTokens)
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
