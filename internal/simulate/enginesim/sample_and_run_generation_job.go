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

// job is a checked request: what to sample, for every prompt.
type job struct {
	adapter *adapter // nil is the base model
	prompts [][]tokenizer.ID
	n       int
	params  pseudolm.Params
	seed    uint64
	seeded  bool
}

// sample decides every completion of the job. Choice j of a seeded request draws from seed+j,
// whatever else is in the batch. A client that leaves ends it.
func (e *Engine) sample(ctx context.Context, j *job) ([]*generation, error) {
	generations := make([]*generation, 0, len(j.prompts)*j.n)
	for _, prompt := range j.prompts {
		for choice := range j.n {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			p := j.params
			if p.Seed = j.seed + uint64(choice); !j.seeded {
				p.Seed = e.seed()
			}
			c, err := e.model.Complete(j.weights(e), prompt, p)
			if err != nil {
				return nil, badRequest("", "Failed to compile the structured output: %v", err)
			}
			g := &generation{Completion: c, prompt: prompt, index: len(generations)}
			g.request = batch.Request{Adapter: j.adapterName(), Prompt: len(prompt), Output: len(c.Tokens),
				Prefix: j.blocks(prompt, c.Tokens, e.cfg.BlockSize)}
			generations = append(generations, g)
		}
	}
	return generations, nil
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

// run puts a job through the engine and returns when all its generations have ended. A client
// that leaves takes its requests with it.
func (e *Engine) run(ctx context.Context, c *call) error {
	if err := e.loop.submit(ctx, c); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.failed
	case <-ctx.Done():
		e.loop.cancel(c)
		return ctx.Err()
	}
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
