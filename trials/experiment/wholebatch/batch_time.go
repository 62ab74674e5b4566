package wholebatch

import (
	"errors"
	"fmt"
	"math"
)

// BatchTime is how long an engine works on one batch.
type BatchTime interface {
	// Seconds is the time of a batch of b requests, at least 1, of which the longest has so many tokens. An error says
	// that the model does not know.
	Seconds(b, longest int) (float64, error)
	// Source says where the model's numbers come from.
	Source() string
}

// LinearTime is a batch time that is a sum of products.
type LinearTime struct {
	PerBatch        float64 `json:"per_batch"`         // seconds of every batch
	PerRequest      float64 `json:"per_request"`       // and for each of its requests
	PerToken        float64 `json:"per_token"`         // and for each token of the longest
	PerRequestToken float64 `json:"per_request_token"` // and for each of these, times requests
	From            string  `json:"source"`
}

// Seconds is the sum.
func (t LinearTime) Seconds(b, longest int) (float64, error) {
	if t.PerBatch == 0 && t.PerRequest == 0 && t.PerToken == 0 && t.PerRequestToken == 0 {
		return 0, errors.New("batches take no time at all: give at least one of the times")
	}
	n, l := float64(b), float64(longest)
	return possible(t.PerBatch+t.PerRequest*n+(t.PerToken+t.PerRequestToken*n)*l, b, longest)
}

// Source says where the numbers come from.
func (t LinearTime) Source() string { return t.From }

// SaturatingTime is a batch time that grows with the longest request, and with further requests less and less:
// seconds = Start + PerToken * longest * (1 + Growth * (b-1)/b). However large the batch, it takes less than
// 1 + Growth times as long as one request alone.
type SaturatingTime struct {
	Start    float64 `json:"start"`
	PerToken float64 `json:"per_token"`
	Growth   float64 `json:"growth"`
	From     string  `json:"source"`
}

// Seconds is the formula's value.
func (t SaturatingTime) Seconds(b, longest int) (float64, error) {
	n := float64(b)
	return possible(t.Start+t.PerToken*float64(longest)*(1+t.Growth*(n-1)/n), b, longest)
}

// Source says where the numbers come from.
func (t SaturatingTime) Source() string { return t.From }

// Seed003Time is the batch time of seed note 003. It calls it measured; the measurements that come with it are this
// formula to the last digit, and their deviation is 5 % everywhere: nothing was measured.
func Seed003Time() SaturatingTime {
	return SaturatingTime{Start: 0.015, PerToken: 0.0003, Growth: 0.4, From: "seed note 003, a formula that it made up"}
}

// LongestTime is the batch time of the multi-bin batching paper: a batch takes as long as its longest request would
// alone, however many there are.
func LongestTime(secondsPerToken float64) LinearTime {
	return LinearTime{PerToken: secondsPerToken, From: "Guldogan et al., arXiv 2412.04504, section 3"}
}

// possible refuses times that cannot be.
func possible(seconds float64, b, longest int) (float64, error) {
	if !(seconds >= 0) || math.IsInf(seconds, 0) {
		return 0, fmt.Errorf("a batch of %d requests of at most %d tokens would take %g s: a batch takes no negative time",
			b, longest, seconds)
	}
	return seconds, nil
}
