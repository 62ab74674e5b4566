package benchservice

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
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
