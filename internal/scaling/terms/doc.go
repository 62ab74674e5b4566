// Package terms measures the inputs of scaling: a run's compute C, the fleet's time for a batch P, and the latency per
// depth R/D. It uses the fleet's counters and the steps' records, of a live run or of a simulated one.
//
// P is the work of a batch divided by the fleet's rate with full slots. Work is counted in tokens: generated ones, and
// a share of those read. An engine's rate is that of the newest stretches of time with full slots. Until there is one,
// it is the highest rate seen, which is too low, so that P is too long rather than too short.
//
// Start reading at Fleet and Run.
package terms
