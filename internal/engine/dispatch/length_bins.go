package dispatch

import (
	"slices"
	"sort"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

const (
	defaultOverflow = 0.05
	recentLengths   = 512 // the sample from which bins of equal mass are made
	relearnEvery    = 64  // new lengths from one making to the next
)

// bin is the statistics of the batches of one range of lengths. Every bin learns separately.
type bin struct {
	size  sizes // of a request, prompt and answer
	pace  pace
	mixed composition
}

// place decides a request's bin, by the length expected of it.
func (b *batcher) place(r *run, q *entry) {
	length := b.length(r.expected(&q.Request))
	b.expect(length)
	q.bin = b.binOf(length)
}

// length is the one of a request's two lengths that bins go by.
func (b *batcher) length(prompt, output int) int {
	if b.rules.BinBy == runspec.TotalLength {
		return prompt + output
	}
	return output
}

// binOf is the bin of a length: bin i has those from the end of bin i-1 to below its own.
func (b *batcher) binOf(length int) int {
	return sort.Search(len(b.ends), func(i int) bool { return length < b.ends[i] })
}

// expect notes a length, and from time to time divides the recent ones into bins of equal mass. Predictions are
// divided and not answers, because it is by its prediction that a request is placed.
func (b *batcher) expect(length int) {
	if len(b.bins) == 1 || len(b.rules.Boundaries) > 0 {
		return
	}
	if len(b.recent) < recentLengths {
		b.recent = append(b.recent, length)
	} else {
		b.recent[b.seen%recentLengths] = length
	}
	if b.seen++; b.seen%relearnEvery == 0 {
		b.ends = equalMass(b.recent, len(b.bins))
	}
}

// equalMass is where k bins end that hold equally many of the lengths.
func equalMass(lengths []int, k int) []int {
	sorted := slices.Sorted(slices.Values(lengths))
	ends := make([]int, k-1)
	for i := range ends {
		ends[i] = sorted[(i+1)*len(sorted)/k]
	}
	return ends
}

// learn takes in a call whose last request has ended. Only one that was answered whole tells how long such a batch
// takes.
func (b *batcher) learn(done *batch, now time.Time) {
	if done.bin >= len(b.bins) || len(done.lengths) == 0 {
		return
	}
	at := &b.bins[done.bin]
	lengths := make([]int, 0, len(done.lengths)/2)
	for pair := range slices.Chunk(done.lengths, 2) {
		at.size.add(float64(pair[0] + pair[1]))
		lengths = append(lengths, b.length(pair[0], pair[1]))
	}
	if len(lengths) < done.size {
		return
	}
	at.mixed.add(lengths)
	if b.rules.TokenLatency > 0 && done.longest > 0 {
		perToken := now.Sub(done.sentAt).Seconds() / float64(done.longest)
		at.pace.add(perToken, done.size, b.rules.TokenLatency.Seconds(), b.rules.MaxBatchSize)
	}
}

// composition measures how similar the requests of a bin's batches were: sums over batches.
type composition struct {
	batches, requests, answered         int64
	variance, spread, longest, unfilled float64
}

// add takes in the true lengths of one batch.
func (c *composition) add(lengths []int) {
	sum, squares := 0.0, 0.0
	for _, l := range lengths {
		sum += float64(l)
		squares += float64(l) * float64(l)
	}
	n := float64(len(lengths))
	most, mean := float64(slices.Max(lengths)), sum/n
	c.batches++
	c.requests += int64(len(lengths))
	c.variance += max(0, squares/n-mean*mean)
	c.spread += most - float64(slices.Min(lengths))
	if most > 0 {
		c.answered++
		c.longest += most / mean
		c.unfilled += 1 - mean/most
	}
}

// BinStats are the statistics of one bin of a run that batches. Composition counts batches that were answered whole;
// its figures are means over them.
type BinStats struct {
	From, To int // lengths, To excluded; 0: no end
	Queued   int
	Target   int // requests in the next batch
	Batches  int64
	Requests int64 // in those batches

	TokensMean, TokensSD float64 // of a request, prompt and answer
	TokenLatencySec      float64 // of recent batches; 0 unless the batch size is steered to it
	Variance             float64 // of lengths within a batch
	Range                float64 // longest minus shortest
	MaxOverMean          float64
	Padding              float64 // share of a batch's places, each as long as its longest, that is empty
}

// stats is what is known of each bin of a run that batches.
func (b *batcher) stats(r *run) []BinStats {
	if b == nil {
		return nil
	}
	out := make([]BinStats, len(b.bins))
	for i := range b.bins {
		at, st := &b.bins[i], &out[i]
		if i > 0 && i <= len(b.ends) {
			st.From = b.ends[i-1]
		}
		if i < len(b.ends) {
			st.To = b.ends[i]
		}
		st.Target = b.target(&lane{laneKey: laneKey{bin: i}}, r)
		st.TokensMean, st.TokensSD = at.size.moments(r)
		st.TokenLatencySec = at.pace.latest
		st.Batches, st.Requests = at.mixed.batches, at.mixed.requests
		if n := float64(at.mixed.batches); n > 0 {
			st.Variance, st.Range = at.mixed.variance/n, at.mixed.spread/n
		}
		if n := float64(at.mixed.answered); n > 0 {
			st.MaxOverMean, st.Padding = at.mixed.longest/n, at.mixed.unfilled/n
		}
	}
	for _, l := range r.lanes {
		out[l.bin].Queued += len(l.queue)
	}
	return out
}
