// Package settings reads files and requests that people write for Millrace, in YAML or JSON, by a table of their keys.
// Reading is strict: an unknown key, a wrong type or an impossible value is a fault, which names the line, the key, the
// value, the bound, the nearest known word. All faults of a file are reported together. The tables belong to others.
//
// Start reading at Key and Table.Open.
package settings
