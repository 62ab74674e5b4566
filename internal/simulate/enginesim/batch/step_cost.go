package batch

import "time"

// Cost says how long an engine's steps take: a linear model of one forward pass.
type Cost struct {
	Step       time.Duration // every step: weights read, kernels launched, host overhead
	FreeTokens int           // tokens that the weights' read hides
	Token      time.Duration // each further token
	Decode     time.Duration // once, when any sequence decodes
	KV         float64       // nanoseconds for each KV token that decoding sequences attend to
	Attention  float64       // nanoseconds per prefill token and token of its context
	LoRA       float64       // factor on all of it when the batch uses an adapter

	AdapterRead time.Duration // adapter weights from disk to host memory
	AdapterCopy time.Duration // from host memory into a GPU slot
}

// A100Qwen7B is calibrated to Qwen2.5-7B in bf16 with LoRA on an A100-80GB: measured kernel
// tables for decode at 1 to 512 sequences and prefill at 440 to 4k tokens, and measured adapter
// loads at rank 32.
func A100Qwen7B() Cost {
	return Cost{
		Step:        11_400 * time.Microsecond,
		FreeTokens:  96,
		Token:       48_700 * time.Nanosecond,
		Decode:      500 * time.Microsecond,
		KV:          36,
		Attention:   2.6,
		LoRA:        1.25,
		AdapterRead: 22 * time.Millisecond,
		AdapterCopy: 3 * time.Millisecond,
	}
}

// Work is what one step computes.
type Work struct {
	Decoding   int     // sequences that each get one token
	KV         int     // tokens in their KV cache, together
	Prefill    int     // prompt tokens
	Attended   float64 // sum over prefill chunks of chunk length times context after the chunk
	UseAdapter bool    // whether any sequence uses an adapter
}

// Tokens is what the step takes from the token budget.
func (w Work) Tokens() int { return w.Decoding + w.Prefill }

// add counts a prefill chunk whose context, itself included, is context tokens.
func (w *Work) add(chunk, context int) {
	w.Prefill += chunk
	w.Attended += float64(chunk) * float64(context)
}

// Duration of a step.
func (c Cost) Duration(w Work) time.Duration {
	d := float64(c.Step) + c.Attention*w.Attended
	d += float64(c.Token) * float64(max(0, w.Tokens()-c.FreeTokens))
	if w.Decoding > 0 {
		d += float64(c.Decode) + c.KV*float64(w.KV)
	}
	return time.Duration(d * c.factor(w))
}

// growth is how many nanoseconds longer the next step takes when nothing changes but the KV cache, which
// every decoding sequence makes one token longer.
func (c Cost) growth(w Work) float64 {
	return c.KV * float64(w.Decoding) * c.factor(w)
}

func (c Cost) factor(w Work) float64 {
	if w.UseAdapter {
		return c.LoRA
	}
	return 1
}
