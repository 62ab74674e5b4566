// Package supply makes as many engines alive as are wanted. It knows which engines were bought and in which phase
// of their lives they are, and decides from what the provider and the fleet say of them what is to be done: start one,
// add it to the fleet, drain it, stop it, replace one that died, stop one that nobody knows. How many are wanted is the
// business of package scaling, and doing it that of activities.
//
// It is pure: time and what was seen come in, commands go out, and what it remembers is JSON, so that a workflow can
// keep it. Start reading at View, then Pool.
package supply
