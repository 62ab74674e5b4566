// Package spec knows the keys of a run spec: one row for each says what it means, may be, is by default, and whether a
// running run takes another value. Reading, checking, changing a running run, the schema, the documentation and the
// help of the command line all go by the rows, so that a new key is a field of rollout.Spec, its row, and its use.
//
// Start reading at keys, then Validate and Change. After a change of the rows, go generate writes what is made of them.
//
//go:generate go test . -run TestReferenceIsUpToDate -update
//go:generate go test ../../config -run TestSchemasAreCommitted -update
package spec
