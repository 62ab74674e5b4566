package noisyneighbours

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine/badenginetest"
)

// trick changes what an engine answers; it returns false where the engine is to answer by itself.
type trick func(w http.ResponseWriter, r *http.Request, engine http.Handler) bool

// misbehaving puts an engine into the fleet that is a sound one but for its trick.
func misbehaving(t trick) func(context.Context, *site) (string, error) {
	return func(ctx context.Context, s *site) (string, error) {
		name := s.unique("hostile")
		target, err := s.Simulate(name, 99)
		if err != nil {
			return "", err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		engine := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
		engine.ErrorLog = log.New(io.Discard, "", 0) // it is not there yet when it is asked first
		handler := func(w http.ResponseWriter, r *http.Request) {
			if !t(w, r, engine) {
				engine.ServeHTTP(w, r)
			}
		}
		server := &http.Server{ErrorLog: engine.ErrorLog, Handler: http.HandlerFunc(handler)}
		defer server.Close()
		go func() { _ = server.Serve(l) }() // ends by Close
		a, err := s.call(ctx, http.MethodPut, "/v1/engines/"+name, map[string]any{"url": "http://" + l.Addr().String()})
		if err != nil || a.Status >= http.StatusBadRequest {
			return "", fmt.Errorf("add it: %v %w", err, refusal(a))
		}
		wait(ctx)
		note := s.stateOf(name)
		return note, s.undo(http.MethodDelete, "/v1/engines/"+name)
	}
}

// stateOf is what the service says of an engine.
func (s *site) stateOf(name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
	defer cancel()
	var e struct{ State, Reason string }
	a, err := s.call(ctx, http.MethodGet, "/v1/engines/"+name, nil)
	if err != nil || json.Unmarshal(a.Body, &e) != nil {
		return "its state could not be read"
	}
	return strings.TrimSuffix(e.State+": "+e.Reason, ": ")
}

// ofGame reports whether the request is a turn of a game, and no canary.
func ofGame(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.Count(r.Header.Get("X-Request-Id"), "/") >= 5
}

func refuse(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
	if !ofGame(r) {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, `{"error":{"message":"I do not like this prompt","type":"BadRequestError","code":400}}`)
	return true
}

// ramble lengthens the answers to games: 20 MB of text, and 5,000 tokens that are in no vocabulary.
func ramble(w http.ResponseWriter, r *http.Request, engine http.Handler) bool {
	if !ofGame(r) {
		return false
	}
	held := &held{header: http.Header{}}
	engine.ServeHTTP(held, r)
	var body map[string]any
	if held.status != http.StatusOK || json.Unmarshal(held.body.Bytes(), &body) != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	choices, _ := body["choices"].([]any)
	for _, c := range choices {
		choice, _ := c.(map[string]any)
		choice["text"] = strings.Repeat("all work and no play ", 1_000_000)
		tokens, _ := choice["token_ids"].([]any)
		logprobs, _ := choice["logprobs"].(map[string]any)
		list, _ := logprobs["token_logprobs"].([]any)
		for range 5000 {
			tokens, list = append(tokens, 1<<31-1), append(list, -1e38)
		}
		choice["token_ids"] = tokens
		if logprobs != nil {
			logprobs["token_logprobs"] = list
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the service may hang up
	return true
}

// everyWay answers each game in another bad way.
func everyWay() trick {
	all := badenginetest.Behaviours()
	var next atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, engine http.Handler) bool {
		if !ofGame(r) {
			return false
		}
		all[next.Add(1)%int64(len(all))].Engine(engine, ofGame).ServeHTTP(w, r)
		return true
	}
}

// held keeps an answer back.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *held) Header() http.Header { return h.header }
func (h *held) WriteHeader(status int) {
	h.status = status
}
func (h *held) Write(b []byte) (int, error) {
	if h.status == 0 {
		h.status = http.StatusOK
	}
	return h.body.Write(b)
}

func listMany(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
	if r.URL.Path != "/v1/models" {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	const base = `{"object":"list","data":[{"id":%q,"object":"model","root":%q,"parent":null,"max_model_len":32768}`
	const adapter = `,{"id":"adapter-%d","object":"model","root":"/adapters/%d","parent":%q,"max_model_len":null}`
	fmt.Fprintf(w, base, model, model)
	for i := range 100_000 {
		fmt.Fprintf(w, adapter, i, i, model)
	}
	_, _ = io.WriteString(w, "]}") // the service may hang up
	return true
}

func measureMany(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
	if r.URL.Path != "/metrics" {
		return false
	}
	for i := range 1_500_000 {
		if _, err := fmt.Fprintf(w, "m%07x 1\n", i); err != nil {
			return true
		}
	}
	return true
}

// hangOnLoad makes one of the engines that serve the healthy run hang whenever an adapter is loaded.
func hangOnLoad(ctx context.Context, s *site) (string, error) {
	engine := "http://" + s.Engines[0]
	fault := strings.NewReader(`{"kind":"hang","path":"/v1/load_lora_adapter"}`)
	resp, err := s.http.Post(engine+"/sim/faults", "application/json", fault)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return "", fmt.Errorf("the engine refuses the fault: %s", resp.Status)
	}
	wait(ctx)
	note := s.stateOf("engine-0")
	req, err := http.NewRequest(http.MethodDelete, engine+"/sim/faults", nil)
	if err != nil {
		return "", err
	}
	if resp, err = s.http.Do(req); err == nil {
		resp.Body.Close()
	}
	return note, err
}
