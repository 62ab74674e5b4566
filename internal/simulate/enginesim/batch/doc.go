// Package batch models continuous batching as vLLM does it: which sequences run in which step
// of an engine, and how long each step takes. It is pure: time is an argument, and the same
// calls give the same events, so a live simulated engine and a simulator with virtual time can
// drive the same code.
//
// In every step each decoding sequence takes one token of the token budget, running prefills take
// chunks of what is left, and then waiting requests are admitted in order while sequences,
// budget, KV cache and adapter slots last. A request reserves KV for its prompt and its whole
// output when admitted, so none is preempted. Sequences whose prefill ended in a step have their
// first token at its end.
//
// Runs of identical decode steps are computed at once (span_of_identical_steps.go), so a model second
// costs far less than a real one. The prefix cache (prefix_cache.go) and the adapters' places (adapter_cache.go) are
// what vLLM keeps between requests.
//
// Start reading at Cost, then Scheduler.Advance.
package batch
