package settings

import "strings"

// Nearest is the known word most likely meant by word, or "".
func Nearest(word string, known []string) string {
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, k := range known {
		if len(word)-len(k) >= bestDistance {
			continue // whatever stands in it: a word that is sent may be long
		}
		if d := Distance(word, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// Distance counts the letters to add, drop, change or swap with their neighbour to get from a to b; the case does not
// count.
func Distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
