package benchservice

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Model is what the engines serve.
const Model = "Qwen/Qwen2.5-7B-Instruct"

// Engine answers completions as vLLM does, in its words and of its sizes, as soon as they are asked for, or
// after a time, or when it is let. See moves for what it says.
type Engine struct {
	URL   string
	InUse SlotsInUse

	pace   func(running, tokens int) time.Duration
	hold   *Hold
	server *http.Server

	begun, running, requests, prompt, generated atomic.Int64
}

// StartEngine starts one whose answers all take as long; the caller stops it.
func StartEngine(after time.Duration, hold *Hold) (*Engine, error) {
	return StartPacedEngine(func(int, int) time.Duration { return after }, hold)
}

// StartPacedEngine starts one whose answers take as long as pace says, given how many requests it has and how many
// tokens it generates for this one.
func StartPacedEngine(pace func(running, tokens int) time.Duration, hold *Hold) (*Engine, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for an engine: %w", err)
	}
	e := &Engine{pace: pace, hold: hold, URL: "http://" + l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { say(w, `{"version":"0.11.0"}`) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		say(w, `{"object":"list","data":[{"id":"`+Model+`","object":"model","root":"`+Model+`","parent":null,`+
			`"max_model_len":32768}]}`)
	})
	mux.HandleFunc("GET /metrics", e.metrics)
	mux.HandleFunc("POST /v1/completions", e.complete)
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = e.server.Serve(l) }() // until it is closed
	return e, nil
}

// Answered is how many requests it has answered.
func (e *Engine) Answered() int64 { return e.requests.Load() }

// Stop ends it, and the requests in it.
func (e *Engine) Stop() { _ = e.server.Close() }

func say(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body) // a worker that has gone needs no answer
}

func (e *Engine) metrics(w http.ResponseWriter, _ *http.Request) {
	for name, v := range map[string]int64{
		"prompt_tokens_total": e.prompt.Load(), "generation_tokens_total": e.generated.Load(),
		"num_requests_running": e.running.Load(), "num_requests_waiting": 0, "request_success_total": e.requests.Load(),
	} {
		label := ""
		if name == "request_success_total" {
			label = `{finished_reason="stop"}`
		}
		fmt.Fprintf(w, "vllm:%s%s %d\n", name, label, v)
	}
}

func (e *Engine) complete(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model     string `json:"model"`
		Prompt    string `json:"prompt"`
		MaxTokens int    `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	running := e.running.Add(1)
	defer e.running.Add(-1)
	e.InUse.add(1)
	defer e.InUse.add(-1)
	n := e.begun.Add(1)
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	text := moves(asked.Prompt, rng)
	text = text[:min(len(text), asked.MaxTokens)]
	if after := e.pace(int(running), len(text)); after > 0 {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(after):
		}
	}
	if !e.hold.pass(r.Context(), asked.Prompt) {
		return
	}
	prompt := tokensOf(asked.Prompt, promptTokenBytes)
	e.requests.Add(1)
	e.prompt.Add(int64(len(prompt)))
	e.generated.Add(int64(len(text)))
	body := answer(asked.Model, text, prompt, n, rng)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a worker that has gone needs no answer
}

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
