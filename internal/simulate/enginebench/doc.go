// Package enginebench measures how much of the engines' capacity reaches the games: the reference workload, played by
// the service's own episode loop, dispatcher and engine client, against simulated engines on loopback ports or real
// ones by address. It needs neither Temporal nor Redis; what they cost is measured by the benchmarks of the packages
// that use them.
//
// Engines measures fleets of growing size, each against a closed loop: the very requests that the games sent, sent
// again with the same concurrency by a generator that does nothing else. What the figures mean is defined where they
// are computed, in result_row_from_both_passes.go, and nowhere else.
//
// Start reading at Engines, then games_pass_and_closed_loop_pass.go.
package enginebench
