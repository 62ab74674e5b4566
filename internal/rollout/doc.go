// Package rollout is the vocabulary of Millrace: names and versions, turns, trajectories, episodes, groups and batches,
// which flow from the engines to the trainer, and failures and refusals. Beside it stand runspec (what a run is asked
// to be), spec (the keys of that), runstatus (what is known of a run), steprecord (what is known of a step),
// enginestate (engines and workers) and telemetry (events). They hold values and their invariants, no behaviour with
// side effects.
//
// Words are used as in the glossary of ARCHITECTURE.md; a step is always an optimizer step. Start reading at
// Trajectory, then runspec.Spec, then steprecord.StepRecord.
package rollout
