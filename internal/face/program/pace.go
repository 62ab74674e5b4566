package program

import "time"

// pace is how soon another game is leased, by how the last ones ended: a webhook that is gone shall not go through all
// games, nor a program that fails each time.
type pace struct {
	next   time.Time // when the next may be leased
	left   int       // rests since a game was played or failed
	failed int       // games in a row
}

const (
	freeFailures = 10 // in a row, before there are rests
	longestRest  = 30 * time.Second
)

// note takes a game's ending. It reports whether that is the first of several such that need be told.
func (p *pace) note(now time.Time, how How) (first bool) {
	switch how {
	case Left:
		if now.Before(p.next) {
			return false // it began before the rest
		}
		p.next = now.Add(rest(time.Second, p.left))
		p.left++
		return p.left == 1
	case Failed:
		p.failed++
		if p.failed > freeFailures {
			p.next = now.Add(rest(time.Second/10, p.failed-freeFailures))
		}
	case Played, Taken:
		p.failed = 0
	}
	p.left = 0
	return false
}

// rest is twice as long each time.
func rest(first time.Duration, times int) time.Duration {
	return min(first<<min(times, 16), longestRest)
}
