package benchservice

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// promptTokenBytes is about what a token of such a prompt is long; of an answer each byte is one, so that three orders
// are the two dozen tokens that a tokenizer makes of them.
const promptTokenBytes = 4

// tokensOf makes tokens of a text: the same of the same text, so that prompts share them as far as they are alike.
func tokensOf(text string, size int) []int32 {
	ids := make([]int32, 0, len(text)/size+1)
	for ; len(text) > 0; text = text[min(size, len(text)):] {
		h := fnv.New32a()
		_, _ = io.WriteString(h, text[:min(size, len(text))])
		ids = append(ids, int32(h.Sum32()%150_000))
	}
	return ids
}

// moves answers the last paragraph of a prompt, which has a line for each unit, with where it may go behind a colon. No
// unit goes to a centre that is not its power's, and none is supported: so no centre changes hands and no unit is lost,
// and every phase asks every power, however long a game is.
func moves(prompt string, rng *rand.Rand) string {
	board, task := prompt, ""
	if at := strings.LastIndex(prompt, "\n\n"); at >= 0 {
		board, task = prompt[:at], prompt[at:]
	}
	_, rest, _ := strings.Cut(task, "You are ")
	power, _, _ := strings.Cut(rest, ".")
	shunned := centresOfOthers(board, power)
	var b strings.Builder
	for line := range strings.Lines(task) {
		unit, options, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || len(unit) > len("F STP/SC") {
			continue
		}
		to := slices.DeleteFunc(strings.Fields(options), func(to string) bool {
			province, _, _ := strings.Cut(to, "/")
			return shunned[province]
		})
		if at := rng.IntN(len(to) + 1); at < len(to) {
			b.WriteString(unit + " - " + to[at] + "\n")
		} else {
			b.WriteString(unit + " H\n")
		}
	}
	if b.Len() == 0 {
		return "1"
	}
	return b.String()
}

// centresOfOthers are the centres that a prompt lists of anybody but a power, behind the semicolon of each line.
func centresOfOthers(board, power string) map[string]bool {
	shunned := map[string]bool{}
	for line := range strings.Lines(board[strings.LastIndex(board, "\n\n")+1:]) {
		whose, centres, ok := strings.Cut(line, ";")
		if name, _, _ := strings.Cut(whose, " "); !ok || name == power {
			continue
		}
		for _, centre := range strings.Fields(centres) {
			shunned[centre] = true
		}
	}
	return shunned
}

// answer is a completion in the words of vLLM 0.11 with return_token_ids and logprobs.
func answer(model, text string, prompt []int32, n int64, rng *rand.Rand) []byte {
	tokens := tokensOf(text, 1)
	logprobs := make([]float64, len(tokens))
	for i := range logprobs {
		logprobs[i] = -rng.ExpFloat64()
	}
	b := make([]byte, 0, 1024+7*len(prompt)+96*len(tokens))
	b = fmt.Appendf(b, `{"id":"cmpl-%d","object":"text_completion","created":1700000000,"model":%q,"choices":[{"index":0,`+
		`"text":%q,"logprobs":{"text_offset":[`, n, model, text)
	each := func(do func(i int)) {
		for i := range tokens {
			if i > 0 {
				b = append(b, ',')
			}
			do(i)
		}
	}
	each(func(i int) { b = strconv.AppendInt(b, int64(i), 10) })
	b = append(b, `],"token_logprobs":[`...)
	each(func(i int) { b = strconv.AppendFloat(b, logprobs[i], 'g', 17, 64) })
	b = append(b, `],"tokens":[`...)
	each(func(i int) { b = strconv.AppendQuote(b, text[i:i+1]) })
	b = append(b, `],"top_logprobs":[`...)
	each(func(i int) { b = fmt.Appendf(b, `{%q:%.17g}`, text[i:i+1], logprobs[i]) })
	b = append(b, `]},"finish_reason":"stop","stop_reason":null,"token_ids":[`...)
	each(func(i int) { b = strconv.AppendInt(b, int64(tokens[i]), 10) })
	b = append(b, `],"prompt_logprobs":null,"prompt_token_ids":[`...)
	for i, id := range prompt {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return fmt.Appendf(b, `]}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":%d,"total_tokens":%d,`+
		`"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}},"kv_transfer_params":null}`,
		len(prompt), len(prompt)+len(tokens), len(tokens))
}
