package share

import (
	"cmp"
	"slices"
)

// spread divides every member's total over engines, each in proportion to its limit, such that rows and columns add up
// exactly. The totals and the limits must have the same sum. Among equals, the slot that cannot be divided goes to the
// member of the highest rank at that engine.
func spread(totals, limits []int, rank func(member, engine int) uint64) [][]int {
	left := slices.Clone(totals)
	rest := 0
	for _, n := range limits {
		rest += n
	}
	cells := make([][]int, len(totals))
	for m := range cells {
		cells[m] = make([]int, len(limits))
	}
	order := make([]int, len(totals))
	for e, limit := range limits {
		if rest == 0 {
			break
		}
		over := limit
		for m, n := range left {
			cells[m][e] = n * limit / rest
			over -= cells[m][e]
			order[m] = m
		}
		// What is left over is fewer than there are members with a fraction, and each of those has a request left.
		slices.SortFunc(order, func(x, y int) int {
			return cmp.Or(-cmp.Compare(left[x]*limit%rest, left[y]*limit%rest), -cmp.Compare(rank(x, e), rank(y, e)),
				cmp.Compare(x, y))
		})
		for _, m := range order[:over] {
			cells[m][e]++
		}
		for m := range left {
			left[m] -= cells[m][e]
		}
		rest -= limit
	}
	return cells
}
