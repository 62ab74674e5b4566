// Package trial tries scaling policies on random runs in virtual time: runs whose trainer, games, engines, failures and
// cold starts are drawn from a seed, each played with every fixed fleet, with the queue policy and with starvation. It
// compares the runs' total time and the engine-hours that were paid for.
//
// Start reading at Draw, then Compare.
package trial
