package onevllm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// generatePath is vLLM's route of tokens in and tokens out.
const generatePath = "/inference/v1/generate"

// asked is a call of the model, as far as it is understood here. Unknown fields go to the engine.
type asked struct {
	fields map[string]json.RawMessage
	model  string // by the client's name
	stream bool
	usage  bool // the client wants it at the end of the stream
	prompt int  // tokens, about
	output int  // tokens at most, of all samples; 0: it does not say
}

// read understands a call, and gives it a seed if it has none: engines begin with the same one, and would answer the
// same prompt alike.
func (c *call) read() (*asked, error) {
	body, err := io.ReadAll(c.r.Body)
	if err != nil {
		return nil, err
	}
	a := &asked{}
	if err := json.Unmarshal(body, &a.fields); err != nil || a.fields == nil {
		return nil, &fault{http.StatusBadRequest, badRequest, "the body is not a JSON object"}
	}
	if err := a.take("model", &a.model); err != nil {
		return nil, err
	}
	if err := a.take("stream", &a.stream); err != nil {
		return nil, err
	}
	sampling := a.fields
	if c.path == generatePath {
		sampling = map[string]json.RawMessage{}
		if err := a.take("sampling_params", &sampling); err != nil {
			return nil, err
		}
	}
	var n, most, chat int
	for name, to := range map[string]*int{"n": &n, "max_tokens": &most, "max_completion_tokens": &chat} {
		_ = json.Unmarshal(sampling[name], to) // what is wrong with it is the engine's to say
	}
	a.output = max(most, chat) * max(1, n)
	a.prompt = tokensIn(a.fields["prompt"]) + tokensIn(a.fields["messages"]) + tokensIn(a.fields["token_ids"])
	if seed := sampling["seed"]; len(seed) == 0 || string(seed) == "null" {
		sampling["seed"] = strconv.AppendInt(nil, rand.Int64N(1<<31), 10)
	}
	if c.path == generatePath {
		if a.fields["sampling_params"], err = json.Marshal(sampling); err != nil {
			return nil, err
		}
	} else if a.stream {
		return a, a.askUsage()
	}
	return a, nil
}

// take reads a field; null and none leave the value as it is.
func (a *asked) take(name string, into any) error {
	raw := a.fields[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &fault{http.StatusBadRequest, badRequest, name + ": a value of the wrong type"}
	}
	return nil
}

// askUsage has the engine tell at the end of a stream what it cost.
func (a *asked) askUsage() error {
	options := map[string]json.RawMessage{}
	if err := a.take("stream_options", &options); err != nil {
		return err
	}
	a.usage = string(options["include_usage"]) == "true"
	options["include_usage"] = json.RawMessage("true")
	var err error
	a.fields["stream_options"], err = json.Marshal(options)
	return err
}

// tokensIn is about how many tokens a prompt has, for balancing loads: those listed, or a quarter of the bytes.
func tokensIn(prompt json.RawMessage) int {
	ids := bytes.TrimLeft(prompt, "[ \n")
	if len(ids) > 0 && ids[0] >= '0' && ids[0] <= '9' {
		return bytes.Count(ids, []byte{','}) + 1
	}
	return len(prompt) / 4
}

// version is what a call is answered by.
type version struct {
	rollout.PolicyVersion
	model string // its name at the engines
}

// find is the version that a name stands for now.
func (c *call) find(ctx context.Context, name string) (v version, held bool, err error) {
	loaded, held, err := c.Names.Look(ctx, c.run, name)
	switch {
	case err != nil:
		return v, held, err
	case loaded != nil && !c.retired(loaded.Version):
		return version{loaded.Version, loaded.Version.Adapter(c.run)}, held, nil
	case name == "", name == c.status.Spec.Model:
		return version{0, c.status.Spec.Model}, held, nil
	}
	status, err := c.Status(ctx, c.run) // one that was published otherwise has only the engines' name
	at := slices.IndexFunc(status.Policies, func(p runstatus.Policy) bool {
		return p.Adapter == name && p.State == runstatus.PolicyServing
	})
	switch {
	case err != nil:
		return v, held, err
	case at < 0:
		return v, held, &fault{http.StatusNotFound, notFound, fmt.Sprintf("The model `%s` does not exist.", name)}
	}
	return version{status.Policies[at].Version, name}, held, nil
}

// retired reports whether the run has let the engines forget a version that a client has not unloaded: more were
// published since than buffer.max_staleness allows.
func (c *call) retired(v rollout.PolicyVersion) bool {
	for _, p := range c.status.Policies {
		if p.Version == v {
			return p.State == runstatus.PolicyRetired
		}
	}
	return v < c.status.PolicyVersion
}

// enter finds the version for a call, and returns when the run's calls are not held. The version is in use from the
// time when the call came until leave is called.
func (c *call) enter(ctx context.Context, name string) (v version, leave func(), err error) {
	v, held, err := c.find(ctx, name)
	if err != nil {
		return v, nil, err
	}
	of := use{c.run, v.model}
	c.mu.Lock()
	c.under[of]++
	c.mu.Unlock()
	leave = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.under[of]--; c.under[of] == 0 {
			delete(c.under, of)
		}
	}
	if held {
		err = until(ctx, func() (bool, error) {
			_, held, err := c.Names.Look(ctx, c.run, "")
			return !held, err
		})
	}
	if err != nil {
		leave()
	}
	return v, leave, err
}

// cancellable is the context of a call that a pause may end.
func (c *call) cancellable() (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancels[&cancel] = c.run
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.cancels, &cancel)
		cancel(nil)
	}
}

// passed are the headers that mean something to an engine.
var passed = []string{"X-Request-Id", "X-Session-Id", "X-Vllm-Priority", "Traceparent", "Tracestate"}

// relay has an engine answer a call of the model.
func (c *call) relay() error {
	a, err := c.read()
	if err != nil {
		return err
	}
	v, leave, err := c.enter(c.r.Context(), a.model)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := c.ready(); err != nil {
		return err
	}
	relayed, err := c.relayed(a, v)
	if err != nil {
		return err
	}
	ctx, done := c.cancellable()
	defer done()
	err = c.Fleet.Relay(ctx, rollout.Request{
		ID: c.r.Header.Get("X-Request-Id"), Episode: c.session(), Model: v.model, Version: v.PolicyVersion,
		Timeout: c.status.Spec.Timeouts.Completion, PromptTokens: a.prompt, OutputTokens: a.output,
	}, relayed)
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errPaused) && !relayed.Begun():
		return c.tell(c.aborted(a))
	default:
		return c.failed(relayed, err)
	}
	if a.stream {
		return c.event([]byte("[DONE]"))
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(relayed.Answer)))
	_, _ = c.w.Write(relayed.Answer) // a client that has gone needs no answer
	return nil
}

// relayed is a call as it goes to an engine.
func (c *call) relayed(a *asked, v version) (*vllm.Relayed, error) {
	name, err := json.Marshal(v.model)
	if err != nil {
		return nil, err
	}
	a.fields["model"] = name
	r := &vllm.Relayed{Path: c.path, Header: http.Header{}, Model: v.model, Named: a.model, Usage: a.usage}
	r.Named = cmp.Or(r.Named, v.model)
	if r.Body, err = json.Marshal(a.fields); err != nil {
		return nil, err
	}
	for _, header := range passed {
		if values := c.r.Header.Values(header); len(values) > 0 {
			r.Header[header] = values
		}
	}
	if c.path == generatePath {
		r.Rewrite = nameTokens
	}
	if a.stream {
		r.Event = c.event
	}
	return r, nil
}

// session is the game that a call counts as one of, for the prefix that an engine holds of it: the client's session, or
// one of its own.
func (c *call) session() rollout.EpisodeRef {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(c.r.Header.Get("X-Session-Id"))) // never fails
	number := hash.Sum64()
	if c.r.Header.Get("X-Session-Id") == "" {
		number = rand.Uint64()
	}
	const above = 1 << 40 // the numbers of games
	return rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: c.run}, Sample: int(number>>16 | above)}
}

// event hands an event of a stream on. The end is ours to tell: what is begun must have one.
func (c *call) event(data []byte) error {
	c.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if _, err := fmt.Fprintf(c.w, "data: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// failed answers a call that no engine has answered. An engine's own refusal goes to the client as it came, under the
// client's name of the model.
func (c *call) failed(relayed *vllm.Relayed, err error) error {
	if relayed.Begun() {
		text, _ := json.Marshal(faultOf(err).body()) // strings and numbers
		return errors.Join(c.event(text), c.event([]byte("[DONE]")))
	}
	refused := own(err)
	if refused == nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(refused.Status)
	_, _ = c.w.Write(bytes.ReplaceAll(refused.Body, []byte(relayed.Model), []byte(relayed.Named)))
	return nil
}

// aborted is vLLM's answer to a call that a pause has ended: nothing was sampled that could be trained on.
func (c *call) aborted(a *asked) any {
	choice := map[string]any{"index": 0, "finish_reason": "abort", "token_ids": []int{}, "logprobs": nil}
	switch c.path {
	case "/v1/completions":
		choice["text"] = ""
	case generatePath:
	default:
		choice["message"] = map[string]any{"role": "assistant", "content": ""}
	}
	return map[string]any{"id": c.r.Header.Get("X-Request-Id"), "model": a.model, "choices": []any{choice},
		"usage": map[string]int{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}
}

// ask has the first engine that answers do what needs no place in a batch.
func (c *call) ask() error {
	a, err := c.read()
	if err != nil {
		return err
	}
	v, _, err := c.find(c.r.Context(), a.model)
	if err != nil {
		return err
	}
	relayed, err := c.relayed(a, v)
	if err != nil {
		return err
	}
	_, err = first(c, func(client *vllm.Client) (rollout.Completion, error) {
		return client.Relay(c.r.Context(), relayed)
	})
	if err != nil {
		return c.failed(relayed, err)
	}
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(relayed.Answer) // a client that has gone needs no answer
	return nil
}
