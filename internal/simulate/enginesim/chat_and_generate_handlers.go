package enginesim

import (
	"encoding/json"
	"net/http"
	"strings"
)

// chat is what is said so far, in OpenAI's form.
type chat struct {
	Messages []struct {
		Role      string      `json:"role"`
		Content   chatContent `json:"content"`
		ToolCalls []struct {
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools json.RawMessage `json:"tools"`
}

// chatContent is a text, or parts of one.
type chatContent string

// UnmarshalJSON reads either form; null is none.
func (c *chatContent) UnmarshalJSON(raw []byte) error {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, (*string)(c)) == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		if part.Type != "text" {
			return badRequest("messages", "this simulated engine does not support a part of type %q.", part.Type)
		}
		*c += chatContent(part.Text)
	}
	return nil
}

// template is this engine's chat template: ChatML, with tools and their calls in Hermes' form, as Qwen has them. What
// the model said is the same again when it is part of a later prompt.
func (c *chat) template(answer bool) string {
	var text strings.Builder
	if len(c.Tools) > 0 && string(c.Tools) != "null" {
		text.WriteString("<|im_start|>tools\n" + string(c.Tools) + "<|im_end|>\n")
	}
	for _, m := range c.Messages {
		text.WriteString("<|im_start|>" + m.Role + "\n" + string(m.Content))
		for _, call := range m.ToolCalls {
			name, _ := json.Marshal(call.Function.Name) // a string
			text.WriteString("<tool_call>\n{\"name\": " + string(name) + ", \"arguments\": " + call.Function.Arguments +
				"}\n</tool_call>")
		}
		text.WriteString("<|im_end|>\n")
	}
	if answer {
		text.WriteString("<|im_start|>assistant\n")
	}
	return text.String()
}

// chatCompletions answers messages. Tools are for who renders them with /tokenize: like a vLLM without a parser of
// their calls this engine takes none here.
func (e *Engine) chatCompletions(w http.ResponseWriter, r *http.Request) {
	var req struct {
		completionRequest
		chat
		Logprobs       bool `json:"logprobs"`
		MostCompletion *int `json:"max_completion_tokens"`
	}
	body, err := readBody(w, r)
	if err == nil {
		err = decodeCompletion(body, &req, &req.completionRequest)
	}
	switch {
	case err != nil:
	case len(req.Messages) == 0:
		err = validation("body.messages", "missing", "Field required")
	default:
		prompt := &prompt{tokens: e.tokens.Encode(req.template(true))}
		req.Prompt = prompt
		if req.MostCompletion != nil {
			req.MaxTokens = req.MostCompletion
		}
		if req.MaxTokens == nil {
			req.MaxTokens = new(max(1, e.cfg.MaxModelLen-len(prompt.tokens)))
		}
		if req.Logprobs {
			req.completionRequest.Logprobs = new(0)
		}
	}
	e.answer(w, r, chatForm, &req.completionRequest, err)
}

// generate answers tokens with tokens.
func (e *Engine) generate(w http.ResponseWriter, r *http.Request) {
	in := struct {
		Model         string          `json:"model"`
		TokenIDs      []int32         `json:"token_ids"`
		Stream        bool            `json:"stream"`
		StreamOptions streamOptions   `json:"stream_options"`
		Sampling      json.RawMessage `json:"sampling_params"`
	}{Sampling: json.RawMessage("{}")}
	var req completionRequest
	err := decode(w, r, &in)
	if err == nil {
		err = decodeCompletion(in.Sampling, &req, &req)
	}
	req.Model, req.Prompt, req.Stream, req.StreamOptions = in.Model, &prompt{tokens: in.TokenIDs}, in.Stream,
		in.StreamOptions
	e.answer(w, r, generateForm, &req, err)
}

var (
	chatForm     = form{"chatcmpl-", "chat.completion", "chat.completion.chunk", chatChoiceOf}
	generateForm = form{"", "", "", generateChoiceOf}
)

// tokenChoice is a generation as the routes of chats and of tokens answer it.
type tokenChoice struct {
	Index        int            `json:"index"`
	Message      *chatMessage   `json:"message,omitempty"`
	Delta        *chatMessage   `json:"delta,omitempty"`
	Logprobs     *tokenLogprobs `json:"logprobs"`
	FinishReason string         `json:"finish_reason"`
	StopReason   any            `json:"stop_reason,omitempty"`
	TokenIDs     []int32        `json:"token_ids"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type tokenLogprobs struct {
	Content []tokenLogprob `json:"content"`
}

type tokenLogprob struct {
	Token   *string `json:"token,omitempty"`
	TokenID *int32  `json:"token_id,omitempty"`
	Logprob float64 `json:"logprob"`
	Top     []any   `json:"top_logprobs"`
}

func chatChoiceOf(e *Engine, req *completionRequest, _ *job, g *generation, index int) any {
	choice := tokenChoice{Index: index, FinishReason: g.finishReason(), StopReason: g.Stopped}
	said := &chatMessage{"assistant", valid(g.Text)}
	if choice.Message = said; req.Stream {
		choice.Message, choice.Delta = nil, said
	}
	if req.ReturnTokenIDs {
		choice.TokenIDs = g.Tokens
	}
	if req.Logprobs != nil {
		choice.Logprobs = logprobsOf(g, func(one *tokenLogprob, id int32) { one.Token = new(e.tokenText(id)) })
	}
	return choice
}

func generateChoiceOf(_ *Engine, req *completionRequest, _ *job, g *generation, index int) any {
	choice := tokenChoice{Index: index, FinishReason: g.finishReason(), TokenIDs: g.Tokens}
	if req.Logprobs != nil {
		choice.Logprobs = logprobsOf(g, func(one *tokenLogprob, id int32) { one.TokenID = &id })
	}
	return choice
}

func logprobsOf(g *generation, name func(*tokenLogprob, int32)) *tokenLogprobs {
	out := &tokenLogprobs{Content: []tokenLogprob{}}
	for i, id := range g.Tokens {
		one := tokenLogprob{Logprob: max(g.Logprobs[i], minLogprob), Top: []any{}}
		name(&one, id)
		out.Content = append(out.Content, one)
	}
	return out
}
