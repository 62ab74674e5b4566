// Package enginesim is a vLLM engine without a GPU, behind vLLM's HTTP API: its answers are vLLM's, without the fields
// that are always null. It batches continuously, with the timing of an A100 (package batch), and samples reproducibly,
// with true log-probabilities (package pseudolm) under vLLM's structured outputs (package constraint). Times can be
// divided by a speed factor. Faults can be injected.
//
// What a completion says is decided when its request arrives; when each of its tokens exists is decided by the loop,
// one goroutine that owns the batch scheduler and advances it by the wall clock. Being late once does not make later
// steps late: steps begin where earlier ones ended, not when the loop woke up.
//
// Engines hold no global state: any number can live in one process. Start reading at New, then Engine.Handler and
// loop.run.
package enginesim
