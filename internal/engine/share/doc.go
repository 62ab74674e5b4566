// Package share divides the engines' limits on requests in flight among the worker processes of a fleet.
//
// Workers announce what requests they have; Divide makes of these announcements how many slots of each engine every
// worker is to have: the requests that wait longest come first, as they would in one worker. It is a pure function, so
// that all workers compute the same. Hand over says how a worker comes from what it has to what it is to have: it gives
// up slots that others need at once, and takes only what the others have given up. Nothing is negotiated, and nobody
// waits for anybody: who hears nothing goes on with what it has. It knows no Redis; package fleetsync drives it.
//
// Start reading at Member, then Divide, then HandOver.
package share
