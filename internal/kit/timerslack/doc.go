// Package timerslack keeps the Go runtime from waking a process for nothing. While anything in a process runs, the
// runtime's monitor (sysmon) sleeps for 20 µs at a time, which Linux makes 70. In a process that wakes for each packet
// the monitor then takes a fifth of its processor time. How much later than asked Linux may end a sleep is a thread's
// timer slack, 50 µs: see prctl(2), PR_SET_TIMERSLACK.
package timerslack
