// Package diagnosis says why the steps of a run take as long as they do, since when, and what
// would change it. It is pure: records in, a report out; it keeps nothing, asks
// nobody and reads no clock. Collecting the records is left to the caller.
//
// # The run
//
// The trainer consumes batch k at S(k) = max(end of step k-1, batch ready). Replacements are
// launched when a batch is taken, so that depth x groups_per_step groups are outstanding, and
// groups are served oldest first. A bound by staleness, or in bytes, is a smaller depth.
//
// # The regime
//
// It names what limits a step, and nothing in it is modelled. A trainer that hardly waits is compute-bound. Where the
// engines' slots or KV caches are full, or launched groups stand unstarted beside free slots, the run is
// capacity-bound (more engines help, depth only moves the onset). Slots in use are the requests in flight, by the
// engines' samples or by Little's law, whichever is more. Where there is room, steps are as long as games take: the
// run is latency-bound (depth helps, engines do not), unless engines are saturated.
//
// # Saturated engines
//
// Engines may be the limit while their slots are free: the more requests are in flight, the longer each takes. Package
// capacity fits by how much, to all loads that the record shows; where the rise of throughput at the present load is
// below one half, the run is capacity-bound by engine_speed. Beyond the loads that were
// seen such engines may do more or not; the prediction is between the two, and the outcome open where they differ.
// Where the loads seen cannot tell, the regime is undecided, and Regime.Probe is the
// experiment that decides, and so it is where the replay does not meet the record. Loads of times in which engines had
// another speed are not compared with each other, and those in which the speed changed say nothing. Loads are known
// badly, rebuilt from timelines or sampled: how far the two views are apart says by how much, and the spread that is
// error is taken out.
//
// # One model
//
// Phases: the trainer is sequential, so a shift of the step time is exactly the sum of its phases' shifts. Inside the
// wait: the timeline of the group that completed the batch is laid over the wait, second by second; the parts add up to
// the wait. Both are measured. What is modelled has one model, the replay: the recorded groups, which share the engines
// by the fitted curve, with something changed. What-ifs are shown only when the unchanged replay meets the recorded
// steps within 10 %. Every number of a report says what it is from.
//
// # Causes
//
// A jump is the difference of two conditions: everything is measured by which the steps before it and after it may
// differ (measure_conditions_of_each_step.go). The before of a condition ends where it changed, which may be long
// before the jump, because a full buffer hides it; those of the prefill are no before
// (compare_conditions_before_and_after_effect.go). What differs is put back, alone and together, in the replay, and
// gets its Shapley share of the jump (attribute_jump_to_conditions_by_replay.go). A longer request is split in order:
// more tokens, stalls, less memory, more load, and what is left are slower engines, since an engine of the same speed
// never gives less for more requests. What was done is looked for from the launch of the first group that shows the
// change (events_behind_changes_and_operator_undo.go). Where nothing changed, what costs time in all steps alike is
// weighed, and else it is the regime's term itself (find_causes_of_slow_steps.go). A slow time that is over is
// explained as it was when it ended.
//
// Start reading at Diagnose: its stages are measuring_stage_of_diagnosis.go, limit_of_step_time_with_evidence.go,
// predict_what_ifs_and_probe_by_replay.go and find_causes_of_slow_steps.go. Package changepoint has the mathematics of
// levels, package reporttext writes a report for a person.
package diagnosis
