// Package settings is what people may set, as tables of keys: what a value may be, what it is where nothing is said,
// and how a patch changes it. Reading is strict: an unknown key, a wrong type or an impossible value is a fault, which
// names the key, the value, the bound, the nearest known word. The tables belong to others; package document reads
// files.
//
// Start reading at Key and Table.Read.
package settings
