// Package fleetsample turns the state of a running service into samples for package scaling: engines and their own
// counters, runs, their groups and steps, workers and their requests. It decides nothing.
//
// Counters and events are read from where the previous window ended. That position and the measured terms are one
// memory, which is JSON. If it is lost, the terms are known again after some steps.
//
// Sampler reads the stores and makes the sample in a pure function. Start reading at Sampler.Sample, then at
// look.sample.
package fleetsample
