// Package fleetsample makes what package scaling decides on from what a running service knows: engines and their own
// counters, runs, their groups and steps, workers and their requests. It decides nothing.
//
// Counters and events are read from where the window before ended. How far that was, and what terms are made of, is one
// memory, which is JSON: whoever keeps it may lose it, and the terms are known again after some steps.
//
// Sampler reads the stores, and what it makes of them is a function of values. Start reading at Sampler.Sample, then at
// look.sample.
package fleetsample
