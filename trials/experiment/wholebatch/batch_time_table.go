package wholebatch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// TableTime is a batch time that was measured at some batch sizes and lengths, and lies on straight lines between them.
type TableTime struct {
	source       string
	sizes, longs []int       // ascending
	seconds      [][]float64 // by size, then length
}

// Measured is one measured time.
type Measured struct {
	Batch   int              `json:"batch"`   // requests in the batch
	Longest int              `json:"longest"` // tokens of its longest request
	Time    rollout.Duration `json:"time"`
}

// NewTable makes a table of measured times. Every size must have every length.
func NewTable(source string, times []Measured) (*TableTime, error) {
	t := &TableTime{source: source}
	for _, m := range times {
		t.sizes = append(t.sizes, m.Batch)
		t.longs = append(t.longs, m.Longest)
	}
	t.sizes, t.longs = sortedSet(t.sizes), sortedSet(t.longs)
	if len(times) == 0 || len(times) != len(t.sizes)*len(t.longs) {
		return nil, fmt.Errorf("%d times for %d sizes and %d lengths: want one for each pair", len(times), len(t.sizes),
			len(t.longs))
	}
	for range t.sizes {
		t.seconds = append(t.seconds, make([]float64, len(t.longs)))
	}
	for _, m := range times {
		i, _ := slices.BinarySearch(t.sizes, m.Batch)
		j, _ := slices.BinarySearch(t.longs, m.Longest)
		t.seconds[i][j] = m.Time.Std().Seconds()
	}
	return t, nil
}

func sortedSet(values []int) []int { return slices.Compact(slices.Sorted(slices.Values(values))) }

// Source says where the numbers come from.
func (t *TableTime) Source() string { return t.source }

// Seconds interpolates between the four nearest times; beyond all of them the outermost ones stand.
func (t *TableTime) Seconds(b, longest int) (float64, error) {
	i, u := between(t.sizes, b)
	j, v := between(t.longs, longest)
	low := t.seconds[i][j]*(1-v) + t.seconds[i][min(j+1, len(t.longs)-1)]*v
	i = min(i+1, len(t.sizes)-1)
	high := t.seconds[i][j]*(1-v) + t.seconds[i][min(j+1, len(t.longs)-1)]*v
	return low*(1-u) + high*u, nil
}

// between is the place at or before v in a list, and how much of the way to the next one v is.
func between(list []int, v int) (int, float64) {
	i, found := slices.BinarySearchFunc(list, v, cmp.Compare[int])
	switch {
	case found:
		return i, 0
	case i == 0:
		return 0, 0
	case i == len(list):
		return i - 1, 0
	}
	return i - 1, float64(v-list[i-1]) / float64(list[i]-list[i-1])
}
