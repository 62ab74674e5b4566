// Package workerrestart measures what it costs the engines that a worker is restarted: two workers have more to do than
// the engines can, one of them is stopped or killed and comes back, and the slots in use from then on are compared with
// those just before. The whole service runs as real processes, with engines that take a fixed time for an answer. Start
// reading at Measure.
package workerrestart
