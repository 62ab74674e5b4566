package changepoint_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		x        []float64
		levels   []int
		outliers []int
	}{
		{"one slow step", []float64{150, 150, 150, 300}, nil, []int{3}},
		{"two slow steps", []float64{150, 150, 150, 300, 300}, []int{3}, nil},
		{"two noisy slow steps", []float64{150, 148, 152, 301, 297}, []int{3}, nil},
		{"three slow steps", []float64{150, 150, 150, 300, 300, 300}, []int{3}, nil},
		{"early shift", []float64{150, 150, 300, 300, 300, 300}, []int{2}, nil},
		{"half as slow again", []float64{100, 101, 99, 100, 104, 150, 151, 149}, []int{5}, nil},
		{"a spike", []float64{150, 150, 300, 150, 150, 150}, nil, []int{2}},
		{"warm-up", []float64{290, 150, 150, 150, 150, 150}, nil, []int{0}},
		{"oscillation, period 2", []float64{150, 150, 450, 150, 450, 150, 450, 150}, nil, nil},
		{"oscillation, period 3", []float64{150, 150, 150, 300, 150, 150, 300, 150, 150, 300}, nil, nil},
		{"short burst in a short series", flat(150, 5, 300, 3, 150, 7), []int{5, 8}, nil},
		{"short burst in a long series", flat(150, 28, 300, 3, 150, 29), nil, []int{28, 29, 30}},
		{"constant", []float64{5, 5, 5, 5, 5}, nil, nil},
		{"seed, full scale", flat(150, 3, 300, 9), []int{3}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := detect(t, tt.x, changepoint.Options{})
			if got := at(r); !slices.Equal(got, tt.levels) {
				t.Errorf("levels %v, want %v", got, tt.levels)
			}
			// Points of an oscillation are far from its median without being outliers of a level.
			if !strings.HasPrefix(tt.name, "oscillation") && !slices.Equal(r.Outliers, tt.outliers) {
				t.Errorf("outliers %v, want %v", r.Outliers, tt.outliers)
			}
		})
	}
}

// A first step of the new level that is still far from it fits both levels equally badly.
func TestDetectRefines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		x             []float64
		plain, refine int
	}{
		{"the new level takes a step to build up", []float64{5.2, 5.2, 5.2, 10.3, 11.4, 11.5, 11.6, 11.7}, 4, 3},
		{"the old level ends with a dip towards the new", []float64{300, 300, 303, 297, 170, 150, 151, 150, 149}, 4, 4},
		{"nothing to refine", flat(150, 3, 300, 5), 3, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := at(detect(t, tt.x, changepoint.Options{})); !slices.Equal(got, []int{tt.plain}) {
				t.Errorf("levels from %v, want %d", got, tt.plain)
			}
			if got := at(detect(t, tt.x, changepoint.Options{Refine: true})); !slices.Equal(got, []int{tt.refine}) {
				t.Errorf("refined levels from %v, want %d", got, tt.refine)
			}
		})
	}
}

// A burst of b slow values inside n is a level when 9b > 12 + 4 ln n, and at the end when 9b > 6 + 2 ln n.
func TestDetectBurstRule(t *testing.T) {
	t.Parallel()
	for _, n := range []int{12, 20, 42, 43, 60, 120} {
		for b := 1; b <= 5; b++ {
			first := (n - b) / 2
			inside := flat(150, first, 300, b, 150, n-b-first)
			want := 9*float64(b) > 12+4*math.Log(float64(n))
			if got := len(detect(t, inside, changepoint.Options{}).Changes) == 2; got != want {
				t.Errorf("n=%d: burst of %d inside is a level: %v, want %v", n, b, got, want)
			}
			end := flat(150, n-b, 300, b)
			want = b > 1 && 9*float64(b) > 6+2*math.Log(float64(n))
			if got := len(detect(t, end, changepoint.Options{}).Changes) == 1; got != want {
				t.Errorf("n=%d: burst of %d at the end is a level: %v, want %v", n, b, got, want)
			}
		}
	}
}

func TestDetectState(t *testing.T) {
	t.Parallel()
	two := detect(t, []float64{150, 150, 150, 300, 300}, changepoint.Options{})
	if two.Changes[0].Confirmed {
		t.Error("two slow values are a confirmed level; want a provisional one")
	}
	three := detect(t, []float64{150, 150, 150, 300, 300, 300}, changepoint.Options{})
	c := three.Changes[0]
	if !c.Confirmed || c.Ratio != 2 {
		t.Errorf("three slow values: %+v; want a confirmed shift, ratio 2", c)
	}
}

func TestDetectRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		x    []float64
		want error
	}{
		{"nothing", nil, changepoint.ErrTooShort},
		{"three values", []float64{150, 150, 150}, changepoint.ErrTooShort},
		{"zero", []float64{150, 150, 0, 150}, changepoint.ErrNotPositive},
		{"negative", []float64{150, -150, 150, 150}, changepoint.ErrNotPositive},
		{"NaN", []float64{150, 150, math.NaN(), 150}, changepoint.ErrNotPositive},
		{"infinite", []float64{150, 150, math.Inf(1), 150}, changepoint.ErrNotPositive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := changepoint.Detect(tt.x, changepoint.Options{}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestDetectPublicSeries(t *testing.T) {
	t.Parallel()
	ungated := changepoint.Options{MinEffect: -1}
	for _, tt := range []struct {
		name     string
		x        []float64
		o        changepoint.Options
		levels   []int
		outliers int // -1: not checked
	}{
		{"tigerbeetle", readValues(t, "tigerbeetle.json"), changepoint.Options{}, []int{15, 71}, -1},
		{"nile", readNile(t), changepoint.Options{}, []int{28}, 1},
		{"quality control 2", readControl(t, "quality_control_2.json"), changepoint.Options{}, []int{97}, 0},
		{"quality control 3", readControl(t, "quality_control_3.json"), changepoint.Options{}, []int{179}, 9},
		{"quality control 5", readControl(t, "quality_control_5.json"), changepoint.Options{}, nil, 0},
		{"well log", readSeries(t, "well_log.json"), changepoint.Options{}, []int{179, 432}, -1},
		{"well log, ungated", readSeries(t, "well_log.json"), ungated,
			[]int{173, 179, 255, 281, 311, 343, 402, 412, 422, 432, 462}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := detect(t, tt.x, tt.o)
			if got := at(r); !slices.Equal(got, tt.levels) {
				t.Errorf("levels %v, want %v", got, tt.levels)
			}
			if tt.outliers >= 0 && len(r.Outliers) != tt.outliers {
				t.Errorf("outliers %v, want %d of them", r.Outliers, tt.outliers)
			}
		})
	}
}

func TestOscillates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		x      []float64
		period int // 0: none
		mean   float64
	}{
		{"period 2 after a calm start", []float64{150, 150, 450, 150, 450, 150, 450, 150}, 2, 300},
		{"period 3", []float64{150, 150, 150, 300, 150, 150, 300, 150, 150, 300}, 3, 200},
		{"a shift is no cycle", flat(150, 3, 300, 7), 0, 0},
		{"constant", flat(150, 12), 0, 0},
		{"spikes", []float64{150, 150, 300, 150, 150, 150, 150, 300, 150, 150, 150, 150}, 0, 0},
		{"too small to matter", []float64{100, 105, 100, 105, 100, 105, 100, 105, 100, 105}, 0, 0},
		{"too short", []float64{150, 450, 150, 450}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, ok := changepoint.Oscillates(tt.x, changepoint.Options{})
			if ok != (tt.period > 0) || (ok && (c.Period != tt.period || math.Abs(c.Mean-tt.mean) > 1e-9)) {
				t.Errorf("got %+v, %v; want period %d, mean %v", c, ok, tt.period, tt.mean)
			}
		})
	}
}

func detect(t *testing.T, x []float64, o changepoint.Options) changepoint.Result {
	t.Helper()
	r, err := changepoint.Detect(x, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func at(r changepoint.Result) []int {
	var out []int
	for _, c := range r.Changes {
		out = append(out, c.At)
	}
	return out
}

// flat is levels, each given as a value and how often.
func flat(levels ...int) []float64 {
	var x []float64
	for i := 0; i < len(levels); i += 2 {
		x = append(x, slices.Repeat([]float64{float64(levels[i])}, levels[i+1])...)
	}
	return x
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readValues(t *testing.T, name string) []float64 {
	t.Helper()
	var x []float64
	if err := json.Unmarshal(readFile(t, name), &x); err != nil {
		t.Fatal(err)
	}
	return x
}

func readSeries(t *testing.T, name string) []float64 {
	t.Helper()
	var doc struct {
		Series []struct{ Raw []float64 } `json:"series"`
	}
	if err := json.Unmarshal(readFile(t, name), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Series[0].Raw
}

// readControl maps a quality control series, which holds negative values, to positive ones.
func readControl(t *testing.T, name string) []float64 {
	t.Helper()
	x := readSeries(t, name)
	for i := range x {
		x[i] = math.Exp(x[i] / 10)
	}
	return x
}

func readNile(t *testing.T) []float64 {
	t.Helper()
	var x []float64
	for _, line := range strings.Split(strings.TrimSpace(string(readFile(t, "nile_statsmodels.csv"))), "\n")[1:] {
		_, volume, _ := strings.Cut(strings.TrimSpace(line), ",")
		v, err := strconv.ParseFloat(volume, 64)
		if err != nil {
			t.Fatal(err)
		}
		x = append(x, v)
	}
	return x
}
