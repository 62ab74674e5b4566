package engineshare_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engineshare"
	"github.com/millrace/millrace/internal/rollout"
)

func limits(engines []rollout.Engine) []int {
	var out []int
	for _, e := range engines {
		out = append(out, e.MaxInFlight)
	}
	return out
}

func TestEvenly(t *testing.T) {
	t.Parallel()
	lost := ready(3, 3)
	lost[0].State = rollout.EngineLost
	for _, tt := range []struct {
		name    string
		engines []rollout.Engine
		workers []string
		want    map[string][]int
	}{
		{"alone", ready(8, 5), []string{"a"}, map[string][]int{"a": {8, 5}}},
		{"not announced yet", ready(8), nil, map[string][]int{"a": {8}}},
		{"two", ready(8, 5, 5), []string{"a", "b"}, map[string][]int{"a": {4, 3, 2}, "b": {4, 2, 3}}},
		{"one slot per engine", ready(1, 1, 1), []string{"a", "b", "c"},
			map[string][]int{"a": {1, 0, 0}, "b": {0, 1, 0}, "c": {0, 0, 1}}},
		{"more workers than slots", ready(1), []string{"a", "b"}, map[string][]int{"a": {1}, "b": {1}}},
		{"a lost engine takes no turn", lost, []string{"a", "b"}, map[string][]int{"a": {2, 2}, "b": {1, 1}}},
		{"no engines", nil, []string{"a"}, map[string][]int{"a": nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for me, want := range tt.want {
				if got := limits(engineshare.Evenly(tt.engines, me, tt.workers)); !slices.Equal(got, want) {
					t.Errorf("worker %s: got %v, want %v", me, got, want)
				}
			}
		})
	}
}

// FuzzEvenly holds Evenly to its promise: parts add up, totals differ by one, nobody is left without a slot.
func FuzzEvenly(f *testing.F) {
	f.Add([]byte{8, 5, 3}, uint8(4))
	f.Add([]byte{1, 1}, uint8(7))
	f.Fuzz(func(t *testing.T, raw []byte, n uint8) {
		workers := make([]string, 1+n%40)
		for i := range workers {
			workers[i] = fmt.Sprintf("w%02d", i)
		}
		var want []int
		fleetTotal := 0
		for _, b := range raw[:min(len(raw), 50)] {
			want = append(want, int(b))
			fleetTotal += int(b)
		}
		engines := ready(want...)
		sums, low, high := make([]int, len(want)), 1<<30, 0
		for _, w := range workers {
			total := 0
			for i, part := range limits(engineshare.Evenly(engines, w, workers)) {
				sums[i] += part
				total += part
			}
			low, high = min(low, total), max(high, total)
		}
		if len(want) > 0 && low < 1 {
			t.Fatal("a worker has no slot")
		}
		if len(want) > 0 && high-low > 1 {
			t.Fatalf("totals from %d to %d", low, high)
		}
		if fleetTotal >= len(workers) && !slices.Equal(sums, want) {
			t.Fatalf("parts add up to %v, limits are %v", sums, want)
		}
	})
}
