package buffer

import (
	"context"
	"fmt"
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
	departures := steprecord.Departures{}
	for name, count := range r.fields(1) {
		bucket, left, _ := strings.Cut(name, " ")
		at, err := strconv.Atoi(bucket)
		if err != nil || at < 0 || at > steprecord.LongestBucket {
			return nil, fmt.Errorf("departures of %s: no bucket of lengths is %q", run, bucket)
		}
		if groups := words(count).int(0); groups != 0 { // else all were taken back
			departures.Count(rollout.Code(left), at, groups)
		}
	}
	return departures.List(), nil
}
