// Package fleet keeps the engines: which there are, what each must serve, and what each was last seen to serve.
// Operators and publications write the desired state: membership, draining, wanted adapters. The Keeper alone writes
// the observed state. It compares the two repeatedly and acts on the difference, so that a lost message costs one
// interval, never the truth.
//
// Decide decides in pure code what is to be done about an engine, and the engine loops of the Keeper do it. Choosing an
// engine for a request is the business of package dispatch. Start reading at Registry, then Decide, then Keeper.
package fleet
