//go:build !linux

package timerslack

// Widen does nothing here: only Linux lets a process say how exact its sleeps are to be.
func Widen() {}
