package wholebatch

import (
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

func TestBatchTimes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		time       BatchTime
		b, longest int
		want       float64
	}{
		{"seed 003, one short request", Seed003Time(), 1, 128, 0.0534},
		{"seed 003, two", Seed003Time(), 2, 128, 0.06108},
		{"seed 003, eight longer", Seed003Time(), 8, 1024, 0.42972},
		{"seed 003, the largest of its grid", Seed003Time(), 32, 2048, 0.86748},
		{"seed 000, 100 s whatever is in the batch", LinearTime{PerBatch: 100}, 7, 9999, 100},
		{"seed 000, 33 s a prompt", LinearTime{PerRequest: 33}, 3, 1, 99},
		{"multi-bin paper, the longest alone", LongestTime(0.5), 128, 20, 10},
		{"a processor without parallelism", LinearTime{PerToken: 0.01, PerRequestToken: 0.02}, 4, 64, 5.76},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.time.Seconds(tt.b, tt.longest)
			if err != nil || math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
	if _, err := (LinearTime{}).Seconds(1, 1); err == nil {
		t.Error("a batch that takes no time was accepted")
	}
}

// TestTable: a table has its own times at its points, lies between them elsewhere, and beyond them takes the outermost.
func TestTable(t *testing.T) {
	t.Parallel()
	var times []Measured
	for _, b := range []int{2, 4, 8} {
		for _, long := range []int{100, 200} {
			times = append(times, Measured{b, long, rollout.Duration(b*long) * rollout.Duration(time.Millisecond)})
		}
	}
	table, err := NewTable("a test", times)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		b, long int
		want    float64
	}{{2, 100, 0.2}, {8, 200, 1.6}, {6, 100, 0.6}, {4, 150, 0.6}, {64, 4096, 1.6}, {1, 1, 0.2}} {
		if got, err := table.Seconds(tt.b, tt.long); err != nil || math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%d requests of %d: %v, %v; want %v", tt.b, tt.long, got, err, tt.want)
		}
	}
	if _, err := NewTable("a test", times[1:]); err == nil {
		t.Error("a table with a hole was accepted")
	}
}
