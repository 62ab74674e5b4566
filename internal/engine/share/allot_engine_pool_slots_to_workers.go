package share

import (
	"cmp"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// floorPart is the part of an equal share that every worker with requests gets.
const floorPart = 8

// allotment is each member's slots of a pool, in all and for each run's requests.
type allotment struct {
	carried []int // slots of other pools: ties go to the member with the fewest
	total   []int
	byRun   []map[rollout.RunName]int
}

// queue is the requests of one run that are not given slots yet, the oldest group first.
type queue struct {
	run   rollout.RunName
	wants []want
	given int
}

func (q *queue) requests() int {
	sum := 0
	for _, w := range q.wants {
		sum += w.requests
	}
	return sum
}

// allot divides the slots of a pool among n members.
func allot(slots, n int, wants []want, caps map[rollout.RunName]int, carried []int) allotment {
	a := allotment{carried: carried, total: make([]int, n), byRun: make([]map[rollout.RunName]int, n)}
	for m := range a.byRun {
		a.byRun[m] = map[rollout.RunName]int{}
	}
	queues := byRun(wants)
	a.floors(slots, queues)
	for i, due := range runShares(slots, queues, caps) {
		a.oldestFirst(queues[i], due-queues[i].given)
	}
	left := slots
	unbounded := make([]int, n)
	for m, t := range a.total {
		left -= t
		unbounded[m] = slots
	}
	for m, more := range fill(left, unbounded, a.poorest()) {
		a.total[m] += more
	}
	return a
}

func (a *allotment) give(q *queue, i, n int) {
	w := &q.wants[i]
	w.requests -= n
	q.given += n
	a.total[w.member] += n
	a.byRun[w.member][q.run] += n
}

// poorest is the members in the order in which they get what cannot be divided.
func (a *allotment) poorest() []int {
	order := make([]int, len(a.total))
	for m := range order {
		order[m] = m
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(a.total[x]+a.carried[x], a.total[y]+a.carried[y])
	})
	return order
}

// byRun is the wants of each run.
func byRun(wants []want) []*queue {
	queues := map[rollout.RunName]*queue{}
	for _, w := range wants {
		if queues[w.run] == nil {
			queues[w.run] = &queue{run: w.run}
		}
		queues[w.run].wants = append(queues[w.run].wants, w)
	}
	all := make([]*queue, 0, len(queues))
	for _, run := range slices.Sorted(maps.Keys(queues)) {
		q := queues[run]
		slices.SortStableFunc(q.wants, func(x, y want) int {
			return cmp.Or(cmp.Compare(x.seq, y.seq), cmp.Compare(x.member, y.member))
		})
		q.wants = merged(q.wants)
		all = append(all, q)
	}
	return all
}

// merged is wants in order with those of one member's group put together: it may want two models.
func merged(wants []want) []want {
	kept := wants[:0]
	for _, w := range wants {
		if n := len(kept); n > 0 && kept[n-1].seq == w.seq && kept[n-1].member == w.member {
			kept[n-1].requests += w.requests
			continue
		}
		kept = append(kept, w)
	}
	return kept
}

// floors gives every member that has requests slots for some of them: of its runs equally many, the oldest first.
func (a *allotment) floors(slots int, queues []*queue) {
	asks := map[int][]int{} // by member, the requests of each run that it asks for
	for r, q := range queues {
		for _, w := range q.wants {
			if asks[w.member] == nil {
				asks[w.member] = make([]int, len(queues))
			}
			asks[w.member][r] += w.requests
		}
	}
	if len(asks) == 0 || len(asks) > slots {
		return // the oldest get the remaining slots
	}
	inOrder := make([]int, len(queues))
	for r := range inOrder {
		inOrder[r] = r
	}
	for m, asked := range asks {
		asks[m] = fill(max(1, slots/(floorPart*len(asks))), asked, inOrder)
	}
	for r, q := range queues {
		for i, w := range q.wants {
			n := min(w.requests, asks[w.member][r])
			asks[w.member][r] -= n
			a.give(q, i, n)
		}
	}
}

// runShares is how many slots the requests of each run get: equally many, within what it has and may have in flight.
func runShares(slots int, queues []*queue, caps map[rollout.RunName]int) []int {
	least, most := make([]int, len(queues)), make([]int, len(queues))
	highest := 0
	for r, q := range queues {
		least[r], most[r] = q.given, q.given+q.requests()
		if limit, limited := caps[q.run]; limited {
			most[r] = max(least[r], min(most[r], limit))
		}
		highest = max(highest, most[r])
	}
	at := func(level int) (shares []int, sum int) {
		shares = make([]int, len(queues))
		for r := range queues {
			shares[r] = max(least[r], min(most[r], level))
			sum += shares[r]
		}
		return shares, sum
	}
	low, high := 0, highest+1 // the level lies at low or above, and below high
	for high-low > 1 {
		if middle := (low + high) / 2; sumOf(at(middle)) <= slots {
			low = middle
		} else {
			high = middle
		}
	}
	shares, sum := at(low)
	for r := range queues {
		if sum < slots && shares[r] == low && most[r] > low {
			shares[r]++
			sum++
		}
	}
	return shares
}

func sumOf(_ []int, sum int) int { return sum }

// oldestFirst gives a run's slots to the requests of its oldest groups.
func (a *allotment) oldestFirst(q *queue, slots int) {
	for from := 0; from < len(q.wants) && slots > 0; {
		to := from
		for to < len(q.wants) && q.wants[to].seq == q.wants[from].seq {
			to++
		}
		slots -= a.sameGroup(q, from, to, slots)
		from = to
	}
}

// sameGroup gives slots to the requests of one group: of each worker equally many. It returns how many it gave.
func (a *allotment) sameGroup(q *queue, from, to, slots int) int {
	asked, at := make([]int, len(a.total)), make([]int, len(a.total))
	for i := from; i < to; i++ {
		asked[q.wants[i].member] += q.wants[i].requests
		at[q.wants[i].member] = i
	}
	sum := 0
	for m, n := range fill(slots, asked, a.poorest()) {
		if n > 0 {
			a.give(q, at[m], n)
			sum += n
		}
	}
	return sum
}

// fill divides an amount as water fills vessels of these sizes: equally, as far as each has room. What cannot be
// divided goes to the first in order. What finds no room is left over.
func fill(amount int, sizes, order []int) []int {
	given := make([]int, len(sizes))
	open := slices.Clone(order)
	for amount > 0 {
		open = slices.DeleteFunc(open, func(i int) bool { return given[i] >= sizes[i] })
		if len(open) == 0 {
			break
		}
		each := amount / len(open)
		if each == 0 {
			for _, i := range open[:amount] {
				given[i]++
			}
			break
		}
		for _, i := range open {
			more := min(each, sizes[i]-given[i])
			given[i] += more
			amount -= more
		}
	}
	return given
}
