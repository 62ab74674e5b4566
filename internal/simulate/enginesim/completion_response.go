package enginesim

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// answer is what a route that asks the model answers, or one event of it.
type answer struct {
	ID             string  `json:"id,omitempty"`
	RequestID      string  `json:"request_id,omitempty"`
	Object         string  `json:"object,omitempty"`
	Created        int64   `json:"created"`
	Model          string  `json:"model"`
	Choices        []any   `json:"choices"`
	Usage          *usage  `json:"usage"`
	PromptTokenIDs []int32 `json:"prompt_token_ids,omitempty"`
}

// form is how a route writes its answers.
type form struct {
	id     string // what leads the answer's id; empty: it is the request's
	object string
	event  string // the object of an event
	choice func(e *Engine, req *completionRequest, j *job, g *generation, index int) any
}

var completionForm = form{"cmpl-", "text_completion", "text_completion", (*Engine).choice}

func (f form) head(e *Engine, req *completionRequest, j *job, r *http.Request) *answer {
	out := &answer{Object: f.object, Created: time.Now().Unix(), Model: j.servedName(e)}
	if out.ID = f.id + e.requestID(r); f.id == "" {
		out.ID, out.RequestID = "", out.ID
	}
	if f.id == chatForm.id && req.ReturnTokenIDs {
		out.PromptTokenIDs = j.prompt
	}
	return out
}

type completionChoice struct {
	Index          int                 `json:"index"`
	Text           string              `json:"text"`
	Logprobs       *completionLogprobs `json:"logprobs"`
	FinishReason   *string             `json:"finish_reason"`
	StopReason     any                 `json:"stop_reason"`
	TokenIDs       []int32             `json:"token_ids"`
	PromptTokenIDs []int32             `json:"prompt_token_ids"`
	PromptLogprobs []map[string]scored `json:"prompt_logprobs,omitempty"`
}

// scored is what is told of a token of the prompt, under its id.
type scored struct {
	Logprob float64 `json:"logprob"`
}

type completionLogprobs struct {
	TextOffset    []int                `json:"text_offset"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	Tokens        []string             `json:"tokens"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
}

type usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	PromptDetails    *promptDetail `json:"prompt_tokens_details"`
}

type promptDetail struct {
	CachedTokens int `json:"cached_tokens"`
}

// choice renders a generation as /v1/completions answers it.
func (e *Engine) choice(req *completionRequest, j *job, g *generation, index int) any {
	reason := g.finishReason()
	choice := completionChoice{Index: index, Text: valid(g.Text), FinishReason: &reason, StopReason: g.Stopped}
	if req.ReturnTokenIDs {
		choice.TokenIDs, choice.PromptTokenIDs = g.Tokens, g.prompt
	}
	if req.PromptLogprobs != nil {
		choice.PromptLogprobs = promptLogprobs(g.prompt, e.model.Score(j.weights(e), g.prompt))
	}
	if req.Logprobs != nil {
		choice.Logprobs = e.completionLogprobs(g)
	}
	return choice
}

// promptLogprobs lists a prompt's tokens with their log-probabilities; the first has none.
func promptLogprobs(prompt []tokenizer.ID, logprobs []float64) []map[string]scored {
	out := make([]map[string]scored, len(prompt))
	for i, logprob := range logprobs {
		out[i+1] = map[string]scored{strconv.Itoa(int(prompt[i+1])): {max(logprob, minLogprob)}}
	}
	return out
}

// usageOf counts the prompt once, and every completion. The cached tokens are the last completion's, as in vLLM.
func usageOf(all []*generation) *usage {
	u := &usage{}
	for _, g := range all {
		u.PromptTokens, u.PromptDetails = len(g.prompt), &promptDetail{CachedTokens: g.cached}
		u.CompletionTokens += len(g.Tokens)
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// valid replaces what is not UTF-8, such as a character that was cut off.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// minLogprob is what vLLM shows for minus infinity.
const minLogprob = -9999.0

// completionLogprobs lists tokens with their log-probabilities.
func (e *Engine) completionLogprobs(g *generation) *completionLogprobs {
	out := &completionLogprobs{TextOffset: []int{}, TokenLogprobs: []float64{}, Tokens: []string{},
		TopLogprobs: []map[string]float64{}}
	offset := 0
	for i, id := range g.Tokens {
		text, logprob := e.tokenText(id), max(g.Logprobs[i], minLogprob)
		out.TextOffset, out.Tokens = append(out.TextOffset, offset), append(out.Tokens, text)
		out.TokenLogprobs = append(out.TokenLogprobs, logprob)
		out.TopLogprobs = append(out.TopLogprobs, map[string]float64{text: logprob})
		offset += utf8.RuneCountInString(text)
	}
	return out
}

// tokenText is how log-probabilities name a token.
func (e *Engine) tokenText(id tokenizer.ID) string {
	text, _ := e.tokens.Piece(id)
	return valid(text)
}
