// Package runhistory keeps, in the memory of one server, what the operator's page draws of runs: a small row for each
// step, and the facts that stand beside them. It reads each step record and fact once, whoever watches, so that a
// page of many thousand steps costs no more than one of a few, and the stores nothing. It forgets the runs that nobody
// has looked at for longest. Start reading at History.
package runhistory
