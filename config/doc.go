// Package config reads the files that people write for Millrace, in YAML: run specs, the configuration of the service,
// its tokens. All faults of a file are reported together, each with its line and what to write instead.
//
// What keys there are, and what is wrong with a value, others know: package spec for a run, the tables of this package
// for the service, which package settings reads. Here faults get their places. Only wiring imports this package.
//
// Start reading at ReadSpec and ReadService, then yaml_reader.go and yaml_to_plain_values.go.
package config
