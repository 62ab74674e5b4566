// Package badenginetest is engines that answer everything as a sound engine does, except completions, which each of
// them answers in a bad way of its own: with what was not asked for, with what is no answer, or without end. It is for
// tests of what stands against them: nothing that violates its request may be stored, and no process may grow. Start
// reading at Behaviours.
package badenginetest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Behaviour is one way to answer a completion badly.
type Behaviour struct {
	Name   string
	answer func(w http.ResponseWriter, r *http.Request, good []byte)
}

// Engine is a sound engine that behaves badly at completions for which bad says so.
func (b Behaviour) Engine(sound http.Handler, bad func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/completions" || !bad(r) {
			sound.ServeHTTP(w, r)
			return
		}
		held := &held{header: http.Header{}, status: http.StatusOK}
		sound.ServeHTTP(held, r)
		b.answer(w, r, held.body.Bytes())
	})
}

// held keeps an answer back.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) WriteHeader(status int)      { h.status = status }
func (h *held) Write(b []byte) (int, error) { return h.body.Write(b) }

// Behaviours is all of them.
func Behaviours() []Behaviour {
	all := []Behaviour{
		{"20 MB of text", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			_, _ = io.WriteString(w, `{"choices":[{"text":"`)
			page := strings.Repeat("all work and no play ", 1000)
			for range 1000 {
				if _, err := io.WriteString(w, page); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `"}]}`)
		}},
		{"5,000 tokens", choice(lengthen(5000, 7, -1))},
		{"a token more than max_tokens", choice(lengthen(9, 7, -1))},
		{"token id 2147483647", choice(lengthen(1, 1<<31-1, -1))},
		{"token id 2^40", choice(lengthen(1, 1<<40, -1))},
		{"negative token id", choice(lengthen(1, -1, -1))},
		{"token ids beyond every vocabulary", choice(lengthen(1, 1<<20, -1))},
		{"null token ids", choice(func(c map[string]any) { c["token_ids"] = []any{nil} })},
		{"token ids as text", choice(func(c map[string]any) { c["token_ids"] = []any{"7"} })},
		{"token ids with fractions", choice(func(c map[string]any) { c["token_ids"] = []any{7.5} })},
		{"no token ids", choice(func(c map[string]any) { c["token_ids"] = []any{} })},
		{"prompt token ids of another prompt", choice(func(c map[string]any) {
			c["prompt_token_ids"] = make([]int, 100_000)
		})},
		{"null prompt token ids", choice(func(c map[string]any) { c["prompt_token_ids"] = []any{nil, nil} })},
		{"logprob -1e38", choice(lengthen(1, 7, -1e38))},
		{"logprob above zero", choice(lengthen(1, 7, 5))},
		{"null logprobs", choice(func(c map[string]any) { c["logprobs"] = map[string]any{"token_logprobs": []any{nil}} })},
		{"logprobs as text", choice(func(c map[string]any) {
			c["logprobs"] = map[string]any{"token_logprobs": []any{"-1"}}
		})},
		{"a logprob too many", choice(func(c map[string]any) { c["token_ids"], c["logprobs"] = []int{7}, scores(-1, -1) })},
		{"no logprobs", choice(func(c map[string]any) { delete(c, "logprobs") })},
		{"another text than the choices", choice(func(c map[string]any) { c["text"] = "I resign." })},
		{"no text", choice(func(c map[string]any) { c["text"] = nil })},
		{"aborted", choice(func(c map[string]any) { c["finish_reason"] = "abort" })},
		{"no finish reason", choice(func(c map[string]any) { c["finish_reason"] = nil })},
		{"index 1 of one", choice(func(c map[string]any) { c["index"] = 1 })},
		{"the base model", whole(func(a map[string]any) { a["model"] = "another" })},
		{"no model", whole(func(a map[string]any) { delete(a, "model") })},
		{"no choices", whole(func(a map[string]any) { a["choices"] = []any{} })},
		{"two choices", whole(func(a map[string]any) {
			choices, _ := a["choices"].([]any)
			a["choices"] = append(choices, choices...)
		})},
		{"100,000 choices", whole(func(a map[string]any) { a["choices"] = make([]struct{}, 100_000) })},
		{"usage below zero", whole(func(a map[string]any) {
			a["usage"] = map[string]any{"prompt_tokens": -5, "completion_tokens": -5}
		})},
		{"enormous usage", whole(func(a map[string]any) {
			a["usage"] = map[string]any{"prompt_tokens": 1 << 60, "completion_tokens": 1 << 60}
		})},
		{"an error with status 200", text(http.StatusOK, `{"error":{"message":"no","type":"BadRequestError","code":400}}`)},
		{"another page", text(http.StatusOK, "<html>It works!</html>")},
		{"NaN", text(http.StatusOK, `{"choices":[{"logprobs":{"token_logprobs":[NaN]}}]}`)},
		{"deep JSON", text(http.StatusOK, `{"choices":`+strings.Repeat("[", 1<<20))},
		{"400 for all", text(http.StatusBadRequest, `{"error":{"message":"no","type":"BadRequestError","code":400}}`)},
		{"404 for all", text(http.StatusNotFound, `{"error":{"message":"no such model","type":"NotFoundError","code":404}}`)},
		{"an error of 16 MiB", text(http.StatusInternalServerError, strings.Repeat("secret ", 16<<17))},
		{"nothing at all", text(http.StatusOK, "")},
		{"two keys of a name", func(w http.ResponseWriter, _ *http.Request, good []byte) {
			_, _ = w.Write(append(bytes.TrimRight(bytes.TrimSpace(good), "}"),
				[]byte(`,"choices":[{"text":"x","token_ids":[1]}]}`)...))
		}},
		{"half of an answer", func(w http.ResponseWriter, _ *http.Request, good []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(good)))
			_, _ = w.Write(good[:len(good)/2])
		}},
		{"half of the JSON", func(w http.ResponseWriter, _ *http.Request, good []byte) {
			_, _ = w.Write(good[:len(good)/2])
		}},
		{"a length that is a lie", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Length", "99999999999999")
			_, _ = io.WriteString(w, "{")
		}},
		{"an answer without end", func(w http.ResponseWriter, r *http.Request, _ []byte) {
			for page := bytes.Repeat([]byte(" "), 64<<10); r.Context().Err() == nil; {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		}},
		{"headers without end", func(w http.ResponseWriter, _ *http.Request, good []byte) {
			for i := range 20_000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
			}
			_, _ = w.Write(good)
		}},
		{"early hints without end", func(w http.ResponseWriter, r *http.Request, _ []byte) {
			for i := 0; i < 100_000 && r.Context().Err() == nil; i++ {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}},
		{"a bomb of gzip", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 1024 {
				_, _ = z.Write(bytes.Repeat([]byte(" "), 64<<10))
			}
			_ = z.Close()
		}},
		{"a connection that breaks", func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }},
	}
	for _, to := range []string{"file:///etc/passwd", "http://169.254.169.254/latest/meta-data/", "/v1/completions",
		"gopher://127.0.0.1:6379/_FLUSHALL"} {
		all = append(all, Behaviour{"sends on to " + to, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}})
	}
	return all
}

// whole answers with a good answer that is changed.
func whole(change func(answer map[string]any)) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, good []byte) {
		var answer map[string]any
		if json.Unmarshal(good, &answer) != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		change(answer)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // its reader may have hung up
	}
}

// choice answers with a good answer whose first choice is changed, and whose usage is not told, so that it
// contradicts nothing.
func choice(change func(choice map[string]any)) func(http.ResponseWriter, *http.Request, []byte) {
	return whole(func(answer map[string]any) {
		delete(answer, "usage")
		if choices, _ := answer["choices"].([]any); len(choices) > 0 {
			if first, ok := choices[0].(map[string]any); ok {
				change(first)
			}
		}
	})
}

// lengthen makes a choice have n tokens, all of one id and log-probability.
func lengthen(n, id int, logprob float64) func(map[string]any) {
	return func(c map[string]any) {
		ids, list := make([]int, n), make([]float64, n)
		for i := range n {
			ids[i], list[i] = id, logprob
		}
		c["token_ids"], c["logprobs"] = ids, scores(list...)
	}
}

func scores(list ...float64) map[string]any { return map[string]any{"token_logprobs": list} }

func text(status int, body string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}
