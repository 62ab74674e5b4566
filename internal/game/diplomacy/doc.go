// Package diplomacy is the board game: maps, positions, orders, which orders are legal, and what comes of them.
//
// It knows the rules and nothing else: no models, no prompts, no clock, no chance. The same position and the same
// orders give the same outcome, whatever the order they are listed in.
//
// Start reading at State (a position), Generator (what may be ordered) and Adjudicator (what happens then). Order
// is the compact form that these speak; ParseOrder and Map.OrderString translate it from and to the notation of the
// python package "diplomacy", whose states and saved games Snapshot and SavedGame read and write. Rule choices
// where rulebooks leave room are listed in docs/diplomacy-rules.md.
//
// How the Adjudicator decides: every moving unit has a question (does it get there?), every supporting unit (does its
// support count?), every convoyed army (does its convoy hold?). A strength depends on answers, so it is kept as a lower
// and an upper bound; as soon as the bounds leave one answer it is given. What stays open depends on itself: untie
// takes a smallest knot of such questions and looks for consistent answers. Exactly one set of them holds; otherwise a
// knot without a convoy is a circular movement, which succeeds, and one with convoys a paradox, in which they fail.
package diplomacy
