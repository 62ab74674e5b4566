package buffer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Departures counts the groups that have left, by why and by the length of their games: first those trained on,
// then the dropped ones by code. A step that is rewound takes its groups back until it is completed again.
func (s *Store) Departures(ctx context.Context, run rollout.RunName) ([]steprecord.LengthCount, error) {
	r, err := s.eval(ctx, departuresScript, run)
	if err != nil {
		return nil, fmt.Errorf("departures: %w", err)
	}
	byCode := map[rollout.Code]*steprecord.LengthCount{}
	for name, count := range r.fields(1) {
		bucket, left, _ := strings.Cut(name, " ")
		code := rollout.Code(left)
		at, err := strconv.Atoi(bucket)
		if err != nil || at < 0 || at > steprecord.LongestBucket {
			return nil, fmt.Errorf("departures of %s: no bucket of lengths is %q", run, bucket)
		}
		groups := words(count).int(0)
		if groups == 0 {
			continue // all were taken back
		}
		c := byCode[code]
		if c == nil {
			c = &steprecord.LengthCount{Code: code}
			byCode[code] = c
		}
		c.Groups += groups
		c.ByLength = append(c.ByLength, make([]int64, max(0, at+1-len(c.ByLength)))...)
		c.ByLength[at] = groups
	}
	counts := make([]steprecord.LengthCount, 0, len(byCode))
	for _, c := range byCode {
		counts = append(counts, *c)
	}
	slices.SortFunc(counts, func(a, b steprecord.LengthCount) int {
		return cmp.Or(trainedFirst(a.Code)-trainedFirst(b.Code), cmp.Compare(a.Code, b.Code))
	})
	return counts, nil
}

func trainedFirst(code rollout.Code) int {
	if code == steprecord.Trained {
		return 0
	}
	return 1
}
