package staticbatch

import (
	"slices"
	"sort"
	"time"
)

const (
	recentLengths = 512 // of which bins of equal mass are made
	relearnEvery  = 64  // new lengths from one making to the next
)

// bin is what is known of the batches of one range of lengths. Every bin learns for itself.
type bin struct {
	size sizes // of a request, prompt and answer
	pace pace
}

// length is the one of a request's two lengths that bins go by.
func (s *Scheduler) length(prompt, output int) int {
	if s.rules.BinBy == TotalLength {
		return prompt + output
	}
	return output
}

// binOf is the bin of a length: bin i has those from the end of bin i-1 to below its own.
func (s *Scheduler) binOf(length int) int {
	return sort.Search(len(s.ends), func(i int) bool { return length < s.ends[i] })
}

// expect notes a length, and from time to time divides the recent ones into bins of equal mass. Predictions are
// divided and not answers, because it is by its prediction that a request is placed.
func (s *Scheduler) expect(length int) {
	if len(s.bins) == 1 || len(s.rules.Boundaries) > 0 {
		return
	}
	if len(s.recent) < recentLengths {
		s.recent = append(s.recent, length)
	} else {
		s.recent[s.seen%recentLengths] = length
	}
	if s.seen++; s.seen%relearnEvery == 0 {
		s.ends = EqualMass(s.recent, len(s.bins))
	}
}

// EqualMass is where k bins end that hold equally many of the lengths. For uniform lengths no bins are better (Guldogan
// et al., arXiv 2412.04504, lemma 4.1).
func EqualMass(lengths []int, k int) []int {
	sorted := slices.Sorted(slices.Values(lengths))
	var ends []int
	for i := 1; i < k; i++ {
		ends = append(ends, sorted[i*len(sorted)/k])
	}
	return ends
}

// learn takes in a batch whose last request has ended.
func (s *Scheduler) learn(done *batch, now time.Duration) {
	at := &s.bins[done.bin]
	for _, tokens := range done.tokens {
		at.size.add(float64(tokens))
	}
	if s.rules.TokenLatency > 0 && done.longest > 0 {
		perToken := (now - done.sentAt).Seconds() / float64(done.longest)
		at.pace.add(perToken, len(done.tokens), s.rules.TokenLatency.Seconds(), s.rules.MaxBatchSize)
	}
}
