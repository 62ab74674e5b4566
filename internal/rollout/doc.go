// Package rollout is the vocabulary of Millrace: the spec of a run; groups,
// episodes, turns, trajectories, batches, step records, which flow from the engines to
// the trainer. It holds values and their invariants, no behaviour with side effects, and
// imports nothing of the project. Start reading at Spec, then Trajectory, then StepRecord.
//
// Words are used as in the glossary of ARCHITECTURE.md; a step is always an optimizer step.
package rollout
