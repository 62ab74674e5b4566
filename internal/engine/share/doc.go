// Package share divides the engines' limits on requests in flight among the worker processes of a fleet.
//
// Workers announce their requests. From these announcements, Divide computes how many slots of each engine every worker
// is due: the requests that wait longest come first, as they would in one worker. It is a pure function, so that all
// workers compute the same. HandOver moves a worker from the slots that it has to those that it is due: it gives up
// slots that others need at once, and takes only what others have given up. There is no negotiation, and no worker
// waits for another: one that hears nothing goes on with what it has. It knows no Redis; package fleetsync drives it.
//
// Start reading at Member, then Divide, then HandOver.
package share
