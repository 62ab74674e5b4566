// Package settings reads documents that people write for Millrace by a table of their keys: one row says what a key
// means, may be and is by default. Reading is strict: an unknown key, a wrong type or an impossible value is a fault
// that names the key, its value, the bound and the nearest known word. The tables themselves belong to others.
//
// Start reading at Key and Table.Read.
package settings
