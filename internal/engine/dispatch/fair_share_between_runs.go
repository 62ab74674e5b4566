package dispatch

import (
	"time"
)

// dispatch sends what can be sent: to each free place the oldest request of the least served run, and of runs that go
// behind only when no other run has one that can be sent.
func (s *Scheduler) dispatch() {
	s.rounds++
	s.dispatchRuns(false)
	s.dispatchRuns(true)
}

// dispatchRuns sends what can be sent of the runs that go behind, or of the others.
func (s *Scheduler) dispatchRuns(behind bool) {
	for s.queued > 0 {
		var least *run
		var first pick
		served, floor := int64(0), s.floor()
		for _, r := range s.runs {
			if r.queued == 0 || r.stuck == s.rounds || r.rules.Behind != behind {
				continue
			}
			mine := max(s.served(r), floor)
			if least != nil && mine >= served {
				continue
			}
			p, ok := s.next(r)
			if !ok {
				r.stuck = s.rounds // What is sent from here on leaves no more room.
				continue
			}
			least, served, first = r, mine, p
		}
		if least == nil {
			return
		}
		least.service = max(least.service, floor)
		s.send(first)
	}
}

// mostOwed is for how long a run that had requests queued and could not be served, because its model was unavailable or
// its breakers open, is given every place when it can.
const mostOwed = time.Second

// floor is the least that a run counts as served, so that it is owed no more than all places for mostOwed.
func (s *Scheduler) floor() int64 {
	places := len(s.held) - s.queued + 1
	return s.level - s.price.of(float64(places)*mostOwed.Seconds())
}

// price is the cost of one second of a place at an engine, in weighted tokens: the tokens of answered requests over
// their seconds, both as decaying means.
type price struct{ tokens, seconds float64 }

// firstPrice is that a request of the size first guessed takes a second.
var firstPrice = price{tokens: firstPromptGuess + outputWeight*firstOutputGuess, seconds: 1}

// priceMemory is over about how many answers the price is a mean.
const priceMemory = 64

func (p *price) add(cost int64, took time.Duration) {
	p.tokens += (float64(cost) - p.tokens) / priceMemory
	p.seconds += (took.Seconds() - p.seconds) / priceMemory
}

// of is the price of so many seconds.
func (p *price) of(seconds float64) int64 {
	const least = 1e-3 // of a mean: answers in no time at all would have no price
	return int64(seconds * p.tokens / max(p.seconds, least))
}

// places is a run's use of the engines: its requests in flight, the sum of their send times, in seconds since the
// scheduler began, and their charges.
type places struct {
	requests int
	sent     float64
	cost     int64
}

func (r *run) holds(q *entry, began time.Time) {
	r.places.requests++
	r.places.sent += q.sentAt.Sub(began).Seconds()
	r.places.cost += q.cost
}

func (r *run) lets(q *entry, began time.Time) {
	r.places.requests--
	r.places.sent -= q.sentAt.Sub(began).Seconds()
	r.places.cost -= q.cost
	if r.places.requests == 0 {
		r.places = places{} // and with it what rounding has left
	}
}

// served is the work done for a run, including its requests in flight. A request that holds its place for longer than
// it was charged for costs more by the second, so that a run with endless requests does not get every place.
func (s *Scheduler) served(r *run) int64 {
	if r.places.requests == 0 {
		return r.service
	}
	held := float64(r.places.requests)*s.now.Sub(s.began).Seconds() - r.places.sent
	return r.service + max(0, s.price.of(held)-r.places.cost)
}

// charge makes a run pay for a try that brought nothing, as much as for one that was answered: by what was expected of
// it, or by the time that it held its place.
func (s *Scheduler) charge(q *entry) {
	q.run.service += max(q.cost, s.rent(q))
}

// chargeTime makes a run pay for a try that an engine turned away: for the time that it held its place.
func (s *Scheduler) chargeTime(q *entry) { q.run.service += s.rent(q) }

// rent is the price of a try that ends now.
func (s *Scheduler) rent(q *entry) int64 { return s.price.of(s.now.Sub(q.sentAt).Seconds()) }
