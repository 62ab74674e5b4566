package steprecord

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Departures gathers how many groups have left, by why and by the length of their games.
type Departures map[rollout.Code]*LengthCount

// Count notes the groups of one bucket of lengths.
func (d Departures) Count(code rollout.Code, bucket int, groups int64) {
	c := d[code]
	if c == nil {
		c = &LengthCount{Code: code}
		d[code] = c
	}
	c.Groups += groups
	c.ByLength = append(c.ByLength, make([]int64, max(0, bucket+1-len(c.ByLength)))...)
	c.ByLength[bucket] = groups
}

// List is first those trained on, then the dropped ones by code.
func (d Departures) List() []LengthCount {
	counts := make([]LengthCount, 0, len(d))
	for _, c := range d {
		counts = append(counts, *c)
	}
	trainedFirst := func(code rollout.Code) int {
		if code == Trained {
			return 0
		}
		return 1
	}
	slices.SortFunc(counts, func(a, b LengthCount) int {
		return cmp.Or(trainedFirst(a.Code)-trainedFirst(b.Code), cmp.Compare(a.Code, b.Code))
	})
	return counts
}
