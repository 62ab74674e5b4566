// Package dispatch decides which request goes to which engine, and when. Scheduler is a pure state
// machine: events and a time in, commands out; it starts nothing, reads no clock and draws
// no chance, so the same events give the same commands. Package live drives it with real engines; a
// simulator may drive the very same code with modelled ones.
//
// The discipline is: least served run first; within a run the oldest group first, because a
// trainer waits for whole groups in the order of their launch and sharing the engines among all groups
// would finish every one late; within a group the game that is furthest behind. A run may ask for
// another order.
//
// A request goes to an engine that serves its model and has room: engines have a concurrency limit, a run may have its
// own limit on each engine, and the rest waits here in a bounded queue and not in an engine, where nobody could order
// it. Of the engines with room, the one with the least outstanding work is taken, unless one that is nearly as free
// holds the prefix of the request's game or group (prefix_affinity.go), or has its adapter (adapter_placement.go).
// While the engine that holds its game's prefix is full, a request lets a few younger ones pass that are at home where
// there is room.
//
// Engines are judged by how requests end (circuit_breaker.go), and by what they say of their load
// (shrink_window_on_load_sample.go). What a run's requests meet with, failures or overload, bounds that run at that
// engine (per_run_engine_backoff_window_denials.go); an engine is closed to all when it is silent, fails a probe or
// fails several runs. What was in flight on a lost engine is dispatched again. Runs share by the work that they got and
// the places that they hold (fair_share_between_runs.go). Start reading at Event and Command, then Scheduler.Handle.
package dispatch
