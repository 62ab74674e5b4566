// Package supply keeps as many engines alive as are wanted. It knows the bought engines and the phases of their lives.
// From the reports of the provider and the fleet it decides what to do: start one, add it to the fleet, drain it, stop
// it, replace one that died, stop an unknown one. Package scaling decides how many are wanted, and activities carry out
// the commands.
//
// It is pure: time and observations come in, commands go out, and its memory is JSON, so that a workflow can keep it.
// Start reading at View, then Pool.
package supply
