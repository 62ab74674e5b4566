package api

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/face/onevllm"
	"github.com/millrace/millrace/internal/rollout"
)

// Clients of a run that speak to it as to one vLLM are answered behind the fence and before huma: what they send is for
// an engine, and refusals have vLLM's form.

// vllmOperations are in the document; package onevllm has every route.
var vllmOperations = []string{"complete-at-fleet", "chat-at-fleet", "generate-at-fleet", "list-fleet-models",
	"load-adapter", "unload-adapter", "pause-fleet-calls", "resume-fleet-calls"}

func (s *Server) registerVLLM() {
	for _, id := range vllmOperations {
		op := s.operation(id)
		op.Parameters = []*huma.Param{
			{Name: "run", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
		}
		op.Responses = map[string]*huma.Response{"200": {Description: "As vLLM has it"}}
		s.api.OpenAPI().AddOperation(&op)
	}
}

// answerVLLM answers what is sent below a run's vllm.
func (s *Server) answerVLLM(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, runsPath), "/", 3)
		if !strings.HasPrefix(r.URL.Path, runsPath) || len(parts) < 2 || parts[1] != "vllm" {
			next.ServeHTTP(w, r)
			return
		}
		path := "/" + strings.Join(parts[2:], "")
		if p := s.serveVLLM(w, r, rollout.RunName(parts[0]), path); p != nil {
			callOf(r.Context()).code = p.code
			for name, values := range p.header {
				w.Header()[name] = values
			}
			onevllm.Refuse(w, p.Status, p.Detail)
		}
	})
}

// serveVLLM answers one call, or returns why it is not let in.
func (s *Server) serveVLLM(w http.ResponseWriter, r *http.Request, name rollout.RunName, path string) *Problem {
	needed := operations()[vllmOperations[0]] // they all need the same
	if lacks := lacking(callOf(r.Context()).grant, needed, name.Plain()); lacks != "" {
		return problem(codeForbidden, lacks)
	}
	if s.deps.VLLM == nil {
		return problem(rollout.Unavailable, "this server has no keys or certificates for engines; its log says which")
	}
	body, refused := s.bodyOf(w, r)
	if refused != nil {
		return refused
	}
	if connection := connectionOf(r.Context()); connection != nil {
		defer connection.begin()()
	}
	ctx, leave := s.untilStopped(r.Context())
	defer leave()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.deps.VLLM.Serve(w, r, name, path)
	return nil
}
