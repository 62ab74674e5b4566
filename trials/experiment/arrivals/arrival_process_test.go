package arrivals_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"

	"github.com/millrace/millrace/trials/experiment/arrivals"
)

func show(t arrivals.Trace) string {
	texts := make([]string, len(t.Arrivals))
	for i, a := range t.Arrivals {
		texts[i] = fmt.Sprintf("%v:%d+%d", a.At, a.Prompt, a.Output)
	}
	return strings.Join(texts, " ")
}

func seconds(sec float64) rollout.Duration { return rollout.Duration(sec * 1e9) }

func TestDrawWithoutChance(t *testing.T) {
	t.Parallel()
	two := arrivals.Draw{Value: 2}
	for _, tt := range []struct {
		name string
		from arrivals.Arrivals
		want string
	}{
		{"even", arrivals.Arrivals{Process: arrivals.EvenArrivals, Calls: 3, Gap: seconds(4), Prompt: two},
			"0s:2+1 4s:2+1 8s:2+1"},
		{"bursts", arrivals.Arrivals{Process: arrivals.BurstArrivals, Calls: 4, Burst: 2, Gap: seconds(10)},
			"0s:1+1 0s:1+1 10s:1+1 10s:1+1"},
		{"at once", arrivals.Arrivals{Process: arrivals.AtOnceArrivals, Calls: 2, Prompts: two, Output: two},
			"0s:1+2 0s:1+2 0s:1+2 0s:1+2"},
	} {
		if got := show(tt.from.Draw(1)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if tt.from.Random() {
			t.Errorf("%s: chance plays", tt.name)
		}
	}
}

// TestDrawMeetsItsFigures: means within 2 % at 40,000 calls, and the same seed draws the same.
func TestDrawMeetsItsFigures(t *testing.T) {
	t.Parallel()
	const calls = 40_000
	for _, tt := range []struct {
		name       string
		from       arrivals.Arrivals
		median, cv float64
	}{
		{"poisson", arrivals.Arrivals{Process: arrivals.PoissonArrivals, Gap: seconds(10)}, 10 * math.Ln2, 1},
		{"gamma of note 000", arrivals.Arrivals{Process: arrivals.GammaArrivals, Gap: seconds(10.05),
			Median: seconds(8.52)}, 8.52, 0.684},
		{"gamma of bursts", arrivals.Arrivals{Process: arrivals.GammaArrivals, Gap: seconds(10), Median: seconds(3)}, 3,
			1 / math.Sqrt(arrivals.GammaShape(10*time.Second, 3*time.Second))},
	} {
		tt.from.Calls, tt.from.Prompt = calls, arrivals.Draw{Mean: 400, CV: 0.5}
		tt.from.Prompts = arrivals.Draw{Values: []int{1, 2, 3}, Weights: []int{1, 0, 1}}
		drawn := tt.from.Draw(7)
		gaps := arrivals.GapsOf(drawn)
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 0.02*want {
				t.Errorf("%s: %s is %g, want %g", tt.name, what, got, want)
			}
		}
		near("the mean gap", gaps.Mean.Seconds(), tt.from.Gap.Seconds())
		near("the median gap", gaps.Median.Seconds(), tt.median)
		near("the variation", gaps.CV, tt.cv)
		near("the prompts of a call", float64(gaps.Requests)/calls, 2)
		sum := 0.0
		for _, a := range drawn.Arrivals {
			sum += float64(a.Prompt)
		}
		near("the prompt", sum/float64(gaps.Requests), 400)
		if show(tt.from.Draw(7)) != show(drawn) {
			t.Errorf("%s: the same seed draws another trace", tt.name)
		}
	}
}

// TestGammaOfNote000: the gaps of seed note 000 have a mean of 10.05 s and a median of 8.52 s. A window of 3 s then
// merges about one pair of calls in nine, not the three in ten that the note counts with.
func TestGammaOfNote000(t *testing.T) {
	t.Parallel()
	mean, median := 10050*time.Millisecond, 8520*time.Millisecond
	shape := arrivals.GammaShape(mean, median)
	if p := arrivals.GammaCDF(shape, shape*3/10.05); p < 0.10 || p > 0.12 {
		t.Errorf("a window of 3 s merges with probability %g", p)
	}
	for x, want := range map[float64]float64{0: 0, 1: 1 - math.Exp(-1), 5: 1 - math.Exp(-5), 1e4: 1} {
		if got := arrivals.GammaCDF(1, x); math.Abs(got-want) > 1e-12 {
			t.Errorf("of an exponential variable: P(<= %g) is %g, want %g", x, got, want)
		}
	}
}

func TestGaps(t *testing.T) {
	t.Parallel()
	var trace arrivals.Trace
	for _, a := range [][2]int{{0, 0}, {0, 0}, {1, 1}, {4, 2}, {10, 3}, {10, 3}, {10, 3}} {
		trace.Arrivals = append(trace.Arrivals, arrivals.Arrival{At: time.Duration(a[0]) * time.Second, Call: a[1]})
	}
	g := arrivals.GapsOf(trace)
	if g.Calls != 4 || g.Requests != 7 || g.Median != 3*time.Second || g.Min != time.Second || g.Max != 6*time.Second {
		t.Errorf("got %+v", g)
	}
	for window, want := range map[time.Duration]float64{0: 0, time.Second: 1.0 / 3, 3 * time.Second: 2.0 / 3,
		time.Minute: 1} {
		if got := g.Within(window); math.Abs(got-want) > 1e-9 {
			t.Errorf("within %v: %g, want %g", window, got, want)
		}
	}
	if one := arrivals.GapsOf(trace.Limit(1)); one.Within(time.Hour) != 0 || one.Mean != 0 {
		t.Errorf("one call has gaps: %+v", one)
	}
}

func TestArrivalsValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from arrivals.Arrivals
		want string
	}{
		{arrivals.Arrivals{Process: arrivals.TraceArrivals},
			"trace: is missing: a trace that comes with the program, or a file"},
		{arrivals.Arrivals{Process: arrivals.PoissonArrivals, Calls: 3}, "gap: is missing: the mean time between calls"},
		{arrivals.Arrivals{Process: arrivals.AtOnceArrivals}, "calls: is missing: how many calls come"},
		{arrivals.Arrivals{Process: arrivals.GammaArrivals, Calls: 1, Gap: seconds(2), Median: seconds(3)},
			"median: is 3s: want a median gap above 0 and below the mean gap, which is 2s"},
		{arrivals.Arrivals{Process: arrivals.AtOnceArrivals, Calls: 1, Output: arrivals.Draw{Value: 1, Mean: 2}},
			"output: give one of value, min and max, mean and cv, values"},
		{arrivals.Arrivals{Process: arrivals.AtOnceArrivals, Calls: 1,
			Prompt: arrivals.Draw{Values: []int{1}, Weights: []int{1, 2}}},
			"prompt: 2 weights for 1 values: give one for each, or none"},
	} {
		var got []string
		tt.from.Validate(func(key, text string) { got = append(got, key+": "+text) })
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), tt.want)
		}
	}
}
