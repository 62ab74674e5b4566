package enginesim

import (
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

type completionResponse struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []completionChoice `json:"choices"`
	ServiceTier       *string            `json:"service_tier"`
	SystemFingerprint *string            `json:"system_fingerprint"`
	Usage             *usage             `json:"usage"`
	KVTransferParams  *struct{}          `json:"kv_transfer_params"`
	ECTransferParams  *struct{}          `json:"ec_transfer_params"`
	Metrics           *struct{}          `json:"metrics"`
}

type completionChoice struct {
	Index          int                 `json:"index"`
	Text           string              `json:"text"`
	Logprobs       *completionLogprobs `json:"logprobs"`
	FinishReason   *string             `json:"finish_reason"`
	StopReason     any                 `json:"stop_reason"`
	TokenIDs       []int32             `json:"token_ids"`
	PromptLogprobs *struct{}           `json:"prompt_logprobs"`
	PromptTokenIDs []int32             `json:"prompt_token_ids"`
	RoutedExperts  *struct{}           `json:"routed_experts"`
}

type completionLogprobs struct {
	TextOffset    []int                `json:"text_offset"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	Tokens        []string             `json:"tokens"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
}

type usage struct {
	PromptTokens      int           `json:"prompt_tokens"`
	TotalTokens       int           `json:"total_tokens"`
	CompletionTokens  int           `json:"completion_tokens"`
	PromptDetails     *promptDetail `json:"prompt_tokens_details"`
	CompletionDetails *struct{}     `json:"completion_tokens_details"`
}

type promptDetail struct {
	CachedTokens       int  `json:"cached_tokens"`
	CreatedCacheTokens *int `json:"created_cache_tokens"`
	MultimodalTokens   *int `json:"multimodal_tokens"`
}

// completionView renders a call as /v1/completions answers it.
type completionView struct {
	engine *Engine
	req    *completionRequest
	job    *job
	head   completionResponse
}

// whole is the answer to a call that has ended.
func (v *completionView) whole(c *call) any {
	v.head.Usage = v.engine.usage(v.job, c)
	v.head.Choices = make([]completionChoice, len(c.generations))
	for i, g := range c.generations {
		v.head.Choices[i] = v.choice(piece{g, 0, g.tokens, g.textTo(g.tokens), true})
	}
	return v.head
}

// chunk is one event of a stream. Fields that vLLM leaves unset there are left out.
func (v *completionView) chunk(p piece) any {
	choice := v.choice(p)
	fields := map[string]any{
		"index": choice.Index, "text": choice.Text, "logprobs": choice.Logprobs, "finish_reason": choice.FinishReason,
		"stop_reason": choice.StopReason, "prompt_token_ids": choice.PromptTokenIDs, "token_ids": choice.TokenIDs,
	}
	return v.event([]any{fields}, nil)
}

func (v *completionView) last(u *usage) any { return v.event([]any{}, u) }

func (v *completionView) event(choices []any, u *usage) any {
	event := map[string]any{
		"id": v.head.ID, "object": v.head.Object, "created": v.head.Created, "model": v.head.Model, "choices": choices,
	}
	if u != nil {
		event["usage"] = u
	}
	return event
}

// choice renders a piece; the first one carries what concerns the prompt.
func (v *completionView) choice(p piece) completionChoice {
	g := p.generation
	choice := completionChoice{Index: g.index, Text: valid(p.text), FinishReason: p.finishReason(),
		StopReason: p.stopReason()}
	if v.req.ReturnTokenIDs {
		choice.TokenIDs = g.Tokens[p.from:p.to]
		if p.from == 0 {
			choice.PromptTokenIDs = g.prompt
		}
	}
	if v.req.Logprobs == nil {
		return choice
	}
	l := &logprobsBuilder{engine: v.engine, out: newCompletionLogprobs()}
	if p.from > 0 {
		l.offset = utf8.RuneCountInString(g.textTo(p.from))
	}
	l.tokens(g, p.from, p.to)
	choice.Logprobs = l.out
	return choice
}

// usage counts each prompt once and every completion. The cached tokens are the last prompt's,
// as in vLLM.
func (e *Engine) usage(j *job, c *call) *usage {
	u := &usage{}
	for _, prompt := range j.prompts {
		u.PromptTokens += len(prompt)
	}
	for _, g := range c.generations {
		u.CompletionTokens += g.tokens
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	u.PromptDetails = &promptDetail{CachedTokens: c.generations[len(c.generations)-j.n].cached}
	return u
}

// valid replaces what is not UTF-8, such as a character that was cut off.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// minLogprob is what vLLM shows for minus infinity.
const minLogprob = -9999.0

// logprobsBuilder lists tokens with their log-probabilities.
type logprobsBuilder struct {
	engine *Engine
	offset int
	out    *completionLogprobs
}

func newCompletionLogprobs() *completionLogprobs {
	return &completionLogprobs{TextOffset: []int{}, TokenLogprobs: []float64{}, Tokens: []string{},
		TopLogprobs: []map[string]float64{}}
}

func (l *logprobsBuilder) tokens(g *generation, from, to int) {
	for i := from; i < to; i++ {
		var top []pseudolm.Ranked
		if i < len(g.Top) {
			top = g.Top[i]
		}
		l.add(g.Tokens[i], g.Logprobs[i], top)
	}
}

func (l *logprobsBuilder) add(id tokenizer.ID, logprob float64, top []pseudolm.Ranked) {
	text := l.engine.tokenText(id)
	l.out.TextOffset = append(l.out.TextOffset, l.offset)
	l.out.Tokens = append(l.out.Tokens, text)
	l.offset += utf8.RuneCountInString(text)
	clamped := max(logprob, minLogprob)
	named := map[string]float64{text: clamped}
	for _, r := range top {
		named[l.engine.tokenText(r.ID)] = max(r.Logprob, minLogprob)
	}
	l.out.TokenLogprobs = append(l.out.TokenLogprobs, clamped)
	l.out.TopLogprobs = append(l.out.TopLogprobs, named)
}

// tokenText is how log-probabilities name a token.
func (e *Engine) tokenText(id tokenizer.ID) string {
	text, _ := e.tokens.Piece(id)
	return valid(text)
}
