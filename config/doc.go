// Package config reads the two kinds of files that people write for Millrace: run specs and the
// configuration of the service. Reading is strict: an unknown key, a wrong type or an impossible value is a fault,
// and all faults of a file are reported together, each with its line and what to write instead. What a
// file does not say has a default, named in the tables of this package and in schema/.
//
// The values themselves belong to others: a run spec is a rollout.Spec, and what can be wrong with a part of the
// service is known by that part. Only worker and cmd import this package.
//
// Start reading at ReadSpec and ReadService, then read.go, which reads any Go struct this way.
package config
