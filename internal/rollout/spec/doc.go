// Package spec is the table of a run spec's keys, one row for each. What reads, checks, compares, documents or changes
// a spec goes by the rows, so that a new key is a field of runspec.Spec, its row, its use.
//
// Start reading at keys, then Validate and Change. After a change of the rows, make docs writes what is made of them.
package spec
