package enginesim

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// job is a checked request: what to sample, how, and how often.
type job struct {
	adapter *adapter // nil is the base model
	prompt  []tokenizer.ID
	params  pseudolm.Params
	n       int
}

// sample decides the job's completions: what they say depends on the request alone, whatever else is in the batch. As
// in vLLM each has the next seed.
func (e *Engine) sample(j *job) (all []*generation, err error) {
	params := j.params
	for range j.n {
		c, err := e.model.Complete(j.weights(e), j.prompt, params)
		if err != nil {
			return nil, badRequest("", "Failed to compile the structured output: %v", err)
		}
		all = append(all, &generation{Completion: c, prompt: j.prompt, done: make(chan struct{}), request: batch.Request{
			Adapter: j.adapterName(), Prompt: len(j.prompt), Output: len(c.Tokens),
			Prefix: j.blocks(j.prompt, c.Tokens, e.cfg.BlockSize)}})
		params.Seed++
	}
	return all, nil
}

func (j *job) weights(e *Engine) pseudolm.Weights {
	if j.adapter == nil {
		return e.adapters.base
	}
	return j.adapter.weights
}

func (j *job) adapterName() string {
	if j.adapter == nil {
		return ""
	}
	return j.adapter.name
}

// blocks names the full blocks of prompt and output for the prefix cache. As in vLLM the name of
// the adapter is part of it and its weights are not.
func (j *job) blocks(prompt, output []tokenizer.ID, size int) []batch.Segment {
	h := fnv.New64a()
	_, _ = h.Write([]byte(j.adapterName())) // never fails
	chain := h.Sum64()
	blocks := make([]batch.Segment, 0, (len(prompt)+len(output))/size)
	filled := 0
	for _, part := range [][]tokenizer.ID{prompt, output} {
		for _, id := range part {
			chain = (chain ^ uint64(uint32(id))) * 0x9E3779B97F4A7C15
			chain ^= chain >> 29
			if filled++; filled == size {
				blocks, filled = append(blocks, batch.Segment{Key: chain, Blocks: 1}), 0
			}
		}
	}
	return blocks
}

// run puts generations through the engine and calls ended with each, in order, when it has ended. A client that leaves
// takes them along, and so does the first that fails.
func (e *Engine) run(ctx context.Context, all []*generation, ended func(i int, g *generation)) (err error) {
	defer func() {
		for _, g := range all {
			if err != nil {
				e.loop.cancel(g)
			}
		}
	}()
	for _, g := range all {
		if err := e.loop.submit(ctx, g); err != nil {
			return err
		}
	}
	for i, g := range all {
		select {
		case <-g.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if g.failed != nil {
			return g.failed
		}
		ended(i, g)
	}
	return nil
}

// requestID is the id of a response, without its prefix.
func (e *Engine) requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return id
	}
	return e.randomID()
}

// randomID looks like a UUID in hexadecimal; it comes from the engine's own stream.
func (e *Engine) randomID() string {
	return fmt.Sprintf("%016x%016x", e.seed(), e.seed())
}
