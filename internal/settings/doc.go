// Package settings reads documents that people write for Millrace by a table of their keys. Reading is strict: an
// unknown key, a wrong type or an impossible value is a fault, which names the key, the value, the bound, the nearest
// known word. The tables belong to others.
//
// Start reading at Key and Table.Read.
package settings
