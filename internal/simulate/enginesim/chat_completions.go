package enginesim

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

type chatRequest struct {
	samplingFields
	Messages            []chatMessage `json:"messages"`
	MaxCompletionTokens *int          `json:"max_completion_tokens"`
	Logprobs            bool          `json:"logprobs"`
	TopLogprobs         int           `json:"top_logprobs"`
	AddGenerationPrompt *bool         `json:"add_generation_prompt"`
	ContinueFinal       bool          `json:"continue_final_message"`
}

type chatMessage struct {
	Role    string      `json:"role"`
	Content chatContent `json:"content"`
}

// chatContent is a text, or parts of which the texts count.
type chatContent string

// UnmarshalJSON reads either form.
func (c *chatContent) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text != nil {
			*c = chatContent(*text)
		}
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type != "text" {
			return badRequest("messages", "this engine understands text only, got a part of type %q.", p.Type)
		}
		*c += chatContent(p.Text)
	}
	return nil
}

// defaultSystem is what Qwen2.5's template says where the messages have no system prompt.
const defaultSystem = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

// template renders messages as Qwen2.5's chat template does.
func (req *chatRequest) template() string {
	var b strings.Builder
	if req.Messages[0].Role != "system" {
		b.WriteString("<|im_start|>system\n" + defaultSystem + "<|im_end|>\n")
	}
	for i, m := range req.Messages {
		b.WriteString("<|im_start|>" + m.Role + "\n" + string(m.Content))
		if req.ContinueFinal && i == len(req.Messages)-1 {
			return b.String()
		}
		b.WriteString("<|im_end|>\n")
	}
	if req.AddGenerationPrompt == nil || *req.AddGenerationPrompt {
		b.WriteString("<|im_start|>assistant\n")
	}
	return b.String()
}

func (e *Engine) chat(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	err := decodeSampling(w, r, &req)
	var j *job
	if err == nil {
		j, err = e.chatJob(&req)
	}
	e.answer(w, r, j, err, func(g []*generation) any {
		response := chatResponse{ID: "chatcmpl-" + e.requestID(r), Object: "chat.completion", Created: time.Now().Unix(),
			Model: j.servedName(e), Usage: usageOf(j, g)}
		if req.ReturnTokenIDs {
			response.PromptTokenIDs = j.prompts[0]
		}
		for i, choice := range e.completionChoices(&completionRequest{samplingFields: req.samplingFields}, g) {
			one := chatChoice{Index: i, Message: chatReply{Role: "assistant", Content: choice.Text},
				FinishReason: choice.FinishReason, StopReason: choice.StopReason, TokenIDs: choice.TokenIDs}
			if req.Logprobs {
				one.Logprobs = e.chatLogprobs(g[i])
			}
			response.Choices = append(response.Choices, one)
		}
		return response
	})
}

func (e *Engine) chatJob(req *chatRequest) (*job, error) {
	if len(req.Messages) == 0 {
		return nil, badRequest("messages", "messages must not be empty.")
	}
	adapter, err := e.adapters.lookUp(req.Model)
	if err != nil {
		return nil, err
	}
	prompt := e.tokens.Encode(req.template())
	maxTokens := e.cfg.MaxModelLen - len(prompt)
	set(&maxTokens, req.MaxTokens)
	set(&maxTokens, req.MaxCompletionTokens)
	if err := e.fits(prompt, max(maxTokens, 1)); err != nil {
		return nil, err
	}
	var logprobs *int
	if req.Logprobs {
		logprobs = &req.TopLogprobs
	} else if req.TopLogprobs > 0 {
		return nil, badRequest("top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true.")
	}
	j := &job{adapter: adapter, prompts: [][]tokenizer.ID{prompt}, n: req.choices()}
	j.seed, j.seeded = req.seed()
	j.params, err = e.params(&req.samplingFields, maxTokens, logprobs)
	return j, err
}

type chatResponse struct {
	ID             string       `json:"id"`
	Object         string       `json:"object"`
	Created        int64        `json:"created"`
	Model          string       `json:"model"`
	Choices        []chatChoice `json:"choices"`
	Usage          *usage       `json:"usage"`
	PromptTokenIDs []int32      `json:"prompt_token_ids"`
}

type chatChoice struct {
	Index        int           `json:"index"`
	Message      chatReply     `json:"message"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	StopReason   any           `json:"stop_reason"`
	TokenIDs     []int32       `json:"token_ids"`
}

type chatReply struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
}

type chatLogprob struct {
	Token   string        `json:"token"`
	Logprob float64       `json:"logprob"`
	Bytes   []int         `json:"bytes"`
	Top     []chatLogprob `json:"top_logprobs,omitempty"`
}

// chatLogprobs lists tokens with their log-probabilities as chat completions do.
func (e *Engine) chatLogprobs(g *generation) *chatLogprobs {
	out := &chatLogprobs{Content: []chatLogprob{}}
	for i, id := range g.Tokens[:g.tokens] {
		entry := e.chatLogprob(id, g.Logprobs[i])
		if i < len(g.Top) {
			for _, r := range g.Top[i] {
				entry.Top = append(entry.Top, e.chatLogprob(r.ID, r.Logprob))
			}
		}
		out.Content = append(out.Content, entry)
	}
	return out
}

func (e *Engine) chatLogprob(id tokenizer.ID, logprob float64) chatLogprob {
	text, _ := e.tokens.Piece(id)
	raw := make([]int, len(text))
	for i := range len(text) {
		raw[i] = int(text[i])
	}
	return chatLogprob{Token: e.tokenText(id), Logprob: max(logprob, minLogprob), Bytes: raw}
}
