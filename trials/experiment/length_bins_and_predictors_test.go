package experiment

import (
	"math"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"

	"github.com/millrace/millrace/trials/experiment/openloop"
	"github.com/millrace/millrace/trials/experiment/staticbatch"
)

// lengthsOf is requests that are told these answers.
func lengthsOf(lengths ...int) []openloop.Request {
	var requests []openloop.Request
	for _, l := range lengths {
		requests = append(requests, openloop.Request{Prompt: 100, Output: l, Predicted: l})
	}
	return requests
}

func TestBinEnds(t *testing.T) {
	t.Parallel()
	ramp := make([]int, 1000)
	for i := range ramp {
		ramp[i] = i + 1
	}
	for _, tt := range []struct {
		name    string
		setting Setting
		lengths []int
		want    []int
	}{
		{"as dispatched", Setting{BinEnds: AsDispatched}, ramp, []int{7}},
		{"equal mass", Setting{BinEnds: EqualMassBins}, ramp, []int{251, 501, 751}},
		{"equal mass of prompt and answer", Setting{BinEnds: EqualMassBins, Dispatch: Dispatch{
			Batching: staticbatch.Rules{BinBy: staticbatch.TotalLength}}}, ramp, []int{351, 601, 851}},
		{"equal mass of equal lengths", Setting{BinEnds: EqualMassBins}, []int{5, 5, 5, 5, 5, 9}, []int{5}},
		{"optimal for two lengths", Setting{BinEnds: OptimalBins}, []int{1, 1, 1, 1, 90, 90, 90, 90}, []int{1, 90}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.setting.Dispatch.Batching.Bins, tt.setting.Dispatch.Batching.MaxBatchSize = 4, 8
			tt.setting.Dispatch.Batching.Boundaries = []int{7}
			got := tt.setting.endBins(lengthsOf(tt.lengths...)).Dispatch.Batching
			if !slices.Equal(got.Boundaries, tt.want) {
				t.Errorf("bins end at %v, want %v", got.Boundaries, tt.want)
			}
			if tt.setting.BinEnds != AsDispatched && got.Bins != len(got.Boundaries)+1 {
				t.Errorf("%d bins with %d ends", got.Bins, len(got.Boundaries))
			}
		})
	}
}

// TestMisplacedRequests: of an inner bin a tenth goes down and a tenth up; of an edge bin a tenth goes inwards, and
// none goes further than one bin.
func TestMisplacedRequests(t *testing.T) {
	t.Parallel()
	s := Setting{ToldBeside: 0.1}
	s.Dispatch.Batching.Boundaries = []int{10, 20, 30}
	const each = 10_000
	var lengths []int
	for range each {
		lengths = append(lengths, 5, 15, 25, 35)
	}
	requests := lengthsOf(lengths...)
	s.misplace(requests, 1)
	var moved [4][4]float64
	for i, r := range requests {
		moved[i%4][s.binOf(r.Predicted)] += 1.0 / each
	}
	want := [4][4]float64{{0.9, 0.1}, {0.1, 0.8, 0.1}, {0, 0.1, 0.8, 0.1}, {0, 0, 0.1, 0.9}}
	for from := range want {
		for to := range want[from] {
			if math.Abs(moved[from][to]-want[from][to]) > 0.015 {
				t.Errorf("from bin %d to bin %d: %.3f, want %.1f", from, to, moved[from][to], want[from][to])
			}
		}
	}
}

func TestEnginesOfBins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		engines int
		want    [][]string
	}{
		{1, [][]string{{"bin-0", "bin-1", "bin-2"}}},
		{2, [][]string{{"bin-0", "bin-2"}, {"bin-1"}}},
		{3, [][]string{{"bin-0"}, {"bin-1"}, {"bin-2"}}},
		{5, [][]string{{"bin-0"}, {"bin-1"}, {"bin-2"}, {"bin-0"}, {"bin-1"}}},
	} {
		s := Setting{Engines: tt.engines}
		s.Dispatch.Batching.Boundaries = []int{10, 20}
		for e, want := range tt.want {
			if got := s.binsOf(e); !slices.Equal(got, want) {
				t.Errorf("engine %d of %d has %v, want %v", e, tt.engines, got, want)
			}
		}
	}
}

// TestPrediction: without noise it is the power of the prompt, and it stays in bounds.
func TestPrediction(t *testing.T) {
	t.Parallel()
	r := virtualtime.NewRandom(1, "test")
	exact := Prediction{Factor: 1.5, Exponent: 0.7}
	for prompt, want := range map[int]int{0: 1, 1: 1, 100: 37, 1000: 188, 1_000_000: 4096} {
		if got := exact.of(prompt, r); got != want {
			t.Errorf("prompt of %d: %d, want %d", prompt, got, want)
		}
	}
	sum, squares, n := 0.0, 0.0, 20_000.0
	for range int(n) {
		x := math.Log(float64(Prediction{}.orDefault().of(1000, r)) / 188.8)
		sum, squares = sum+x, squares+x*x
	}
	if deviation := math.Sqrt(squares/n - sum/n*sum/n); math.Abs(sum/n) > 0.01 || math.Abs(deviation-0.1) > 0.005 {
		t.Errorf("logarithms have mean %.3f and deviation %.3f, want 0 and 0.1", sum/n, deviation)
	}
}
