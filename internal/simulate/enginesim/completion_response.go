package enginesim

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

type completionResponse struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *usage             `json:"usage"`
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

// completionChoices renders generations as /v1/completions answers them.
func (e *Engine) completionChoices(req *completionRequest, j *job, generations []*generation) []completionChoice {
	choices := make([]completionChoice, len(generations))
	for i, g := range generations {
		reason := g.finishReason()
		choices[i] = completionChoice{Index: i, Text: g.said(), FinishReason: &reason, StopReason: g.stopReason()}
		if req.ReturnTokenIDs {
			choices[i].TokenIDs, choices[i].PromptTokenIDs = g.Tokens[:g.tokens], g.prompt
		}
		if req.PromptLogprobs != nil {
			choices[i].PromptLogprobs = promptLogprobs(g.prompt, e.model.Score(j.weights(e), g.prompt))
		}
		if req.Logprobs != nil {
			choices[i].Logprobs = e.completionLogprobs(g)
		}
	}
	return choices
}

// promptLogprobs lists a prompt's tokens with their log-probabilities; the first has none.
func promptLogprobs(prompt []tokenizer.ID, logprobs []float64) []map[string]scored {
	out := make([]map[string]scored, len(prompt))
	for i, logprob := range logprobs {
		out[i+1] = map[string]scored{strconv.Itoa(int(prompt[i+1])): {max(logprob, minLogprob)}}
	}
	return out
}

// usageOf counts each prompt once and every completion. The cached tokens are the last prompt's,
// as in vLLM.
func usageOf(j *job, generations []*generation) *usage {
	u := &usage{}
	for _, prompt := range j.prompts {
		u.PromptTokens += len(prompt)
	}
	for _, g := range generations {
		u.CompletionTokens += g.tokens
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	u.PromptDetails = &promptDetail{CachedTokens: generations[len(generations)-j.n].cached}
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
	for i, id := range g.Tokens[:g.tokens] {
		text, logprob := e.tokenText(id), max(g.Logprobs[i], minLogprob)
		named := map[string]float64{text: logprob}
		if i < len(g.Top) {
			for _, r := range g.Top[i] {
				named[e.tokenText(r.ID)] = max(r.Logprob, minLogprob)
			}
		}
		out.TextOffset, out.Tokens = append(out.TextOffset, offset), append(out.Tokens, text)
		out.TokenLogprobs, out.TopLogprobs = append(out.TokenLogprobs, logprob), append(out.TopLogprobs, named)
		offset += utf8.RuneCountInString(text)
	}
	return out
}

// tokenText is how log-probabilities name a token.
func (e *Engine) tokenText(id tokenizer.ID) string {
	text, _ := e.tokens.Piece(id)
	return valid(text)
}
