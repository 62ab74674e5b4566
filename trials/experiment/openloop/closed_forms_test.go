package openloop

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/trials/experiment/staticbatch"
	"github.com/millrace/millrace/trials/experiment/wholebatch"
)

// The setting of the multi-bin batching paper's figures: requests of 1 to 20 s, uniform, in batches of 128.
const (
	batchSize = 128
	shortest  = 1.0
	longest   = 20.0
	perSecond = 1000 // tokens
)

// theorem is the mean time of a batch with k bins (Guldogan et al., theorem 4.2).
func theorem(k int) float64 {
	b, middle := float64(batchSize), (longest+shortest)/2
	return middle + (b/(b+1)*longest+1/(b+1)*shortest-middle)/float64(k)
}

// wholeBatches is engines whose batches take as long as their longest answer.
func wholeBatches(int) (enginemodel.Engine, error) {
	return wholebatch.NewWholeBatch(wholebatch.WholeBatchConfig{Time: wholebatch.LongestTime(1.0 / perSecond),
		OutputOnly: true})
}

// multiBin is the paper's scheduler: bins of equal mass, full batches only, and those in the order in which they became
// full.
func multiBin(bins int) staticbatch.Rules {
	rules := staticbatch.Rules{MaxBatchSize: batchSize, Bins: bins, FlushWindow: rollout.Duration(10_000 * time.Hour)}
	for i := 1; i < bins; i++ {
		rules.Boundaries = append(rules.Boundaries, boundary(i, bins))
	}
	return rules
}

func boundary(i, bins int) int {
	return int(math.Round(perSecond * (shortest + float64(i)/float64(bins)*(longest-shortest))))
}

// uniformRequests have lengths of 1 to 20 s. The gaps are exponential; rate 0: all come at once. An error moves a
// request to a neighbouring bin with that probability, to each side of an inner bin.
func uniformRequests(n, bins int, rate, errorShare float64, seed uint64) []Request {
	gaps, lengths := virtualtime.NewRandom(seed, "gaps"), virtualtime.NewRandom(seed, "lengths")
	errors := virtualtime.NewRandom(seed, "errors")
	requests := make([]Request, n)
	at := 0.0
	for i := range requests {
		if rate > 0 {
			at += gaps.Exponential() / rate
		}
		length := int(perSecond * (shortest + lengths.Float64()*(longest-shortest)))
		requests[i] = Request{At: time.Duration(at * 1e9), Output: length, Predicted: length}
		if errorShare > 0 {
			requests[i].Predicted = misplaced(length, bins, errorShare, errors.Float64())
		}
	}
	return requests
}

// misplaced is a length in the bin in which a request of a length is put.
func misplaced(length, bins int, errorShare, chance float64) int {
	bin := 0
	for bin < bins-1 && length >= boundary(bin+1, bins) {
		bin++
	}
	first, last := bin == 0, bin == bins-1
	switch {
	case chance < errorShare && !first:
		bin--
	case chance < errorShare && first, chance >= errorShare && chance < 2*errorShare && !first && !last:
		bin++
	default:
		return length
	}
	return (boundary(bin, bins) + boundary(bin+1, bins)) / 2
}

// fullBatches is how many requests are in full batches, when the last of these ended, and their mean latency.
func fullBatches(o Outcome, requests []Request) (n int, end, latency float64) {
	sum := 0.0
	for _, b := range o.Batches {
		if len(b.Requests) < batchSize {
			continue
		}
		for _, i := range b.Requests {
			n++
			end = max(end, o.Served[i].Ended.Seconds())
			sum += (o.Served[i].Ended - requests[i].At).Seconds()
		}
	}
	return n, end, sum / float64(n)
}

// saturated is the throughput of one engine that always has more requests than it can take.
func saturated(t *testing.T, n, bins int, errorShare float64) float64 {
	t.Helper()
	requests := uniformRequests(n, bins, 0, errorShare, 7)
	out, err := Play(Setting{Requests: requests, Engines: 1, Engine: wholeBatches, Batching: multiBin(bins)})
	if err != nil {
		t.Fatal(err)
	}
	served, end, _ := fullBatches(out, requests)
	return float64(served) / end
}

// TestMultiBinThroughput is theorem 4.2, and what full batches of 128,000 requests come to.
func TestMultiBinThroughput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bins               int
		theorem, simulated float64
	}{
		{1, 6.4475, 6.446}, {2, 8.4342, 8.414}, {3, 9.3996, 9.378}, {4, 9.9703, 9.938}, {5, 10.3472, 10.325},
		{8, 10.9692, 10.934}, {16, 11.5476, 11.509}, {32, 11.8603, 11.831},
	} {
		t.Run(fmt.Sprint(tt.bins, " bins"), func(t *testing.T) {
			t.Parallel()
			if got := batchSize / theorem(tt.bins); math.Abs(got-tt.theorem) > 5e-5 {
				t.Errorf("the theorem says %.4f, want %.4f", got, tt.theorem)
			}
			if testing.Short() && tt.bins != 2 {
				t.Skip("one of them is enough under the race detector; run without -short")
			}
			got := saturated(t, 128_000, tt.bins, 0)
			t.Logf("%.3f simulated", got)
			for _, want := range []float64{tt.simulated, tt.theorem} {
				if math.Abs(got/want-1) > 0.005 {
					t.Errorf("simulated %.4f, want %.4f within 0.5 %%", got, want)
				}
			}
		})
	}
	if most := 2 * batchSize / (longest + shortest); math.Abs(most-12.1905) > 5e-5 {
		t.Errorf("the bound is %.4f", most)
	}
}

// TestNeighbourBinErrors: a tenth of the requests in a neighbouring bin takes all that two bins bring.
func TestNeighbourBinErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		errorShare float64
		bins       int
		want       float64
	}{
		{0.1, 2, 6.53}, {0.1, 4, 7.91}, {0.1, 8, 9.38}, {0.3, 2, 6.45}, {0.3, 4, 7.83}, {0.3, 8, 9.31},
	} {
		t.Run(fmt.Sprint(tt.bins, " bins, ", tt.errorShare), func(t *testing.T) {
			t.Parallel()
			got := saturated(t, 32_000, tt.bins, tt.errorShare)
			t.Logf("%.3f", got)
			if math.Abs(got/tt.want-1) > 0.01 {
				t.Errorf("got %.3f, want %.2f within 1 %%", got, tt.want)
			}
		})
	}
}

// TestLatencyOfBins is lemma 5.1: with engines enough, more bins only make batches wait longer until they are full.
func TestLatencyOfBins(t *testing.T) {
	t.Parallel()
	const rate = 4.0
	for bins, want := range map[int]float64{1: 35.73, 2: 46.93, 3: 61.24} {
		t.Run(fmt.Sprint(bins, " bins"), func(t *testing.T) {
			t.Parallel()
			lemma := theorem(bins) + float64(bins)*(batchSize-1)/(2*rate)
			if math.Abs(lemma-want) > 0.01 {
				t.Errorf("the lemma says %.3f, want %.2f", lemma, want)
			}
			requests := uniformRequests(48_000, bins, rate, 0, 11)
			out, err := Play(Setting{Requests: requests, Engines: 64, Engine: wholeBatches, Batching: multiBin(bins)})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, got := fullBatches(out, requests); math.Abs(got/want-1) > 0.015 {
				t.Errorf("simulated %.2f s, want %.2f within 1.5 %%", got, want)
			}
		})
	}
}

// TestExampleOfBins: 1, 5, 2 and 6 s in batches of two take 11 s in order of arrival and 8 s in two bins.
func TestExampleOfBins(t *testing.T) {
	t.Parallel()
	var requests []Request
	for _, seconds := range []int{1, 5, 2, 6} {
		requests = append(requests, Request{Output: seconds * perSecond, Predicted: seconds * perSecond})
	}
	for bins, want := range map[int]float64{1: 11, 2: 8} {
		batching := staticbatch.Rules{MaxBatchSize: 2, Bins: bins, FlushWindow: rollout.Duration(time.Hour)}
		if bins == 2 {
			batching.Boundaries = []int{4 * perSecond}
		}
		out, err := Play(Setting{Requests: requests, Engines: 1, Engine: wholeBatches,
			Batching: batching})
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Metrics(requests, 0).End; math.Abs(got-want) > 1e-9 {
			t.Errorf("%d bins: %g s, want %g", bins, got, want)
		}
	}
}

// TestMemoryBoundOfBatches is eq. 12 of Pang et al. (arXiv 2503.05248) at work: with room for 10,000 tokens, requests
// of 500 with a deviation of 300 go in batches of 16, which exceed the room in at most 5 % of all cases. The 18 that
// seed 003's margin of a tenth allows, and the 20 without a margin, exceed it far more often.
func TestMemoryBoundOfBatches(t *testing.T) {
	t.Parallel()
	const room = 10_000
	// chosen makes requests of 200 and 800 tokens.
	chosen := func(long func(i int) bool) []Request {
		requests := make([]Request, 20_000)
		for i := range requests {
			requests[i] = Request{Prompt: 190, Output: 10, Predicted: 10}
			if long(i) {
				requests[i].Prompt = 790
			}
		}
		return requests
	}
	play := func(requests []Request, batching staticbatch.Rules) (mostOften int, over float64) {
		batching.FlushWindow = rollout.Duration(time.Hour)
		out, err := Play(Setting{Requests: requests, Engines: 1, Engine: wholeBatches, Limit: 64,
			Batching: batching})
		if err != nil {
			t.Fatal(err)
		}
		sizes := make([]int, 65)
		for _, b := range out.Batches {
			sizes[len(b.Requests)]++
			total := 0
			for _, i := range b.Requests {
				total += requests[i].Prompt + requests[i].Output
			}
			if total > room {
				over++
			}
		}
		return slices.Index(sizes, slices.Max(sizes)), over / float64(len(out.Batches))
	}
	inTurn := chosen(func(i int) bool { return i%2 == 0 })
	if size, _ := play(inTurn, staticbatch.Rules{MaxBatchSize: 64, MemoryTokens: room}); size != 16 {
		t.Errorf("batches of %d, want 16", size)
	}
	random := virtualtime.NewRandom(5, "lengths")
	drawn := chosen(func(int) bool { return random.Float64() < 0.5 })
	for size, want := range map[int]struct{ least, most float64 }{16: {0.01, 0.05}, 18: {0.2, 0.3}, 20: {0.35, 0.5}} {
		if _, over := play(drawn, staticbatch.Rules{MaxBatchSize: size}); over < want.least || over > want.most {
			t.Errorf("%.3f of batches of %d are too big, want %g to %g", over, size, want.least, want.most)
		}
	}
}

// TestUniformBinsOfEqualMassAreOptimal is lemma 4.1.
func TestUniformBinsOfEqualMassAreOptimal(t *testing.T) {
	t.Parallel()
	var lengths []int
	for i := range 20_000 {
		lengths = append(lengths, 1000+i*19/20)
	}
	for _, k := range []int{2, 4, 8} {
		equal, optimal := staticbatch.EqualMass(lengths, k), OptimalBins(lengths, k, batchSize)
		for i := range equal {
			if math.Abs(float64(equal[i]-optimal[i])) > 2*19_000/cuts {
				t.Errorf("%d bins end at %v, the best at %v", k, equal, optimal)
			}
		}
	}
}

// TestExponentialBins is appendix A.4: for exponential lengths equal mass is not the best; the paper's bins are within
// a few per cent of it.
func TestExponentialBins(t *testing.T) {
	t.Parallel()
	const mean = 1000.0
	var lengths []int
	for i := range 20_000 {
		lengths = append(lengths, 1+int(-mean*math.Log(1-(float64(i)+0.5)/20_000)))
	}
	for _, k := range []int{2, 3, 4, 8} {
		ends := ExponentialBins(mean, k, batchSize)
		q := func(i int) float64 {
			if i < 0 {
				return 1
			}
			return math.Exp(-ends[i] / mean)
		}
		// The paper's conditions; ends[i] is the end of its bin i+1.
		if got := q(k-3) / q(k-2); math.Abs(got-5.4331470925891) > 1e-9 {
			t.Errorf("%d bins: q(k-2)/q(k-1) is %g, want the harmonic number of 128", k, got)
		}
		for i := 0; i+1 < len(ends); i++ {
			if got, want := q(i-1)/q(i), 1+math.Log(q(i)/q(i+1)); math.Abs(got-want) > 1e-9 {
				t.Errorf("%d bins: ratio %d is %g, want %g", k, i, got, want)
			}
		}
		whole := make([]int, len(ends))
		for i := range ends {
			whole[i] = int(ends[i])
		}
		papers := ExpectedLongest(lengths, whole, batchSize)
		equal := ExpectedLongest(lengths, staticbatch.EqualMass(lengths, k), batchSize)
		best := ExpectedLongest(lengths, OptimalBins(lengths, k, batchSize), batchSize)
		t.Logf("%d bins: equal mass %.0f, the paper's %.0f, the best %.0f", k, equal, papers, best)
		if papers >= equal || best > papers*1.01 {
			t.Errorf("%d bins: equal mass %.1f, the paper's %.1f, the best %.1f", k, equal, papers, best)
		}
	}
}
