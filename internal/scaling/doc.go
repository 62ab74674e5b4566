// Package scaling decides how many engines a fleet is worth, and says why. Its Machine takes samples of the fleet and
// of the runs that share it, and returns decisions: a wanted number of engines with a reason in one sentence, when the
// next change is possible, what the change is predicted to do to the step time, and later what it did.
//
// There are three policies. Fixed wants what it was told. Queue goes by the requests that are outstanding, as
// serverless platforms do. Starvation buys engines only while a trainer waits for what more engines would produce
// sooner, and gives them back when the others are enough. What all of them want is bounded by least, most and budget.
//
// The machine is pure: time comes with the samples, and what it remembers is one State, which is JSON, so that a
// workflow can keep it. The same state and sample give the same decision; a sample that was decided on is not decided
// on again. Who starts and stops engines, and makes as many alive as are wanted, is the driver's affair.
//
// Start reading at Sample, then Machine.
package scaling
