// Package fleet keeps the engines: which there are, what each must serve, and what each was last seen to be. Desired
// state (membership, draining, wanted adapters) is written by operators and by publications; observed state is written
// by the Keeper alone, which compares the two again and again and acts on the difference. A lost message therefore
// costs one interval, never the truth.
//
// What is to be done about an engine is decided in pure code, Decide and the commands that follow from it; the engine
// loops of the Keeper perform it. Choosing an engine for a request is the business of package dispatch. Start reading
// at Registry, then Decide, then Keeper.
package fleet
