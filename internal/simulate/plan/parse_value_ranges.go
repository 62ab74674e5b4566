package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostValues bounds a range.
const mostValues = 1000

// ParseValues reads whole numbers from 1 on as people write them: 4, or 2,4,8, or 1..16, or 1..4,8,16.
func ParseValues(text string) ([]int, error) {
	const how = "want whole numbers such as 4, 2,4,8 or 1..16"
	var out []int
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		first, last, isRange := strings.Cut(part, "..")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(strings.TrimSpace(first))
		to, err2 := strconv.Atoi(strings.TrimSpace(last))
		switch {
		case part == "":
			return nil, fmt.Errorf("%q: there is nothing beside a comma; %s", text, how)
		case err != nil || err2 != nil:
			return nil, fmt.Errorf("%q: %q is no number; %s", text, part, how)
		case from < 1:
			return nil, fmt.Errorf("%q: %d is too small; the least is 1", text, from)
		case to < from:
			return nil, fmt.Errorf("%q: the range goes down; write %d..%d", text, to, from)
		case to-from >= mostValues:
			return nil, fmt.Errorf("%q: %d values; %d are the most", text, to-from+1, mostValues)
		}
		for v := from; v <= to; v++ {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
