// Package arch holds the map of ARCHITECTURE.md as tests: which package may import which, who owns each
// technology, and who may read the clock or the environment. A new edge is a new line here, seen in review.
package arch
