// Package diplomacy is the board game: maps, positions, orders, which orders are legal, and what comes of them.
//
// It knows the rules and nothing else: no models, no prompts, no clock, no chance. The same position and the same
// orders give the same outcome, whatever the order they are listed in.
//
// Start reading at State (a position), Generator (what may be ordered) and Adjudicator (what happens then). Order
// is the compact form that these speak; ParseOrder and Map.OrderString translate it from and to the notation of the
// python package "diplomacy", whose states and saved games Snapshot and SavedGame read and write. Rule choices
// where rulebooks leave room are listed in docs/diplomacy-rules.md.
package diplomacy
