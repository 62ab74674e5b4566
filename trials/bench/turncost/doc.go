// Package turncost measures what a turn of a game costs in processor time: the whole service as real processes, with
// engines that answer at once, so that nothing but the service's own work is in it. What a turn costs is read from the
// kernel's account of each process; which part of the worker it goes to, from the worker's own CPU profile.
//
// Package benchservice starts the service, and has its games played: every phase has seven turns, and a game may have
// any number of phases. Start reading at Measure; the parts of a worker are listed in
// divide_profile_by_worker_part.go.
package turncost
