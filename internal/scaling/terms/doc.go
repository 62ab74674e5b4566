// Package terms measures what scaling goes by: a run's compute C, the fleet's time for a batch P, and the latency per
// depth R/D, from the fleet's counters and the steps' records, as they are known of a live run and of a simulated one.
//
// P is the work of a batch divided by what the fleet does when its slots are full. Work is counted in tokens: those
// that are generated, and a share of those that are read. An engine's rate is that of the newest stretches of time in
// which its slots were full; as long as there was none, the highest that was seen, which is too low, so that P is too
// long rather than too short.
//
// Start reading at Fleet and Run.
package terms
