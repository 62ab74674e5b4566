// Package scaling decides how many engines a fleet is worth, and says why. Its Machine takes samples of the fleet and
// of the runs that share it, and returns decisions: a wanted number of engines with a reason in one sentence, when the
// next change is possible, the predicted effect on the step time, and later the measured one.
//
// There are three policies. Fixed wants the configured number. Queue goes by the outstanding requests, as serverless
// platforms do. Starvation buys engines only while a trainer waits for what more engines would produce sooner, and
// gives them back when the others are enough. Min, max and budget bound all of them.
//
// The machine is pure: time comes with the samples, and its memory is one State, which is JSON, so that a workflow can
// keep it. The same state and sample give the same decision; a repeated sample is not decided on again. The driver
// starts and stops engines to match the wanted number.
//
// Start reading at Sample, then Machine.
package scaling
