package openloop

import (
	"errors"
	"math"
	"slices"
	"time"
)

// Metrics is how a setting went. Latency is from arrival to completion; percentiles lie on straight lines between the
// two nearest values. Shares are of 1.
type Metrics struct {
	Requests   int     `json:"requests"`
	Mean       float64 `json:"latency_mean_seconds"`
	P50        float64 `json:"latency_p50_seconds"`
	P95        float64 `json:"latency_p95_seconds"`
	P99        float64 `json:"latency_p99_seconds"`
	Max        float64 `json:"latency_max_seconds"`
	Violations float64 `json:"violation_share"` // of requests whose latency exceeds the deadline
	Throughput float64 `json:"throughput"`      // requests per second from the first arrival to the last completion
	Goodput    float64 `json:"goodput"`         // throughput without violations
	Busy       float64 `json:"busy_share"`      // of the engines, from time zero to the last completion
	Batches    int     `json:"batches"`
	BatchMean  float64 `json:"batch_mean"`   // requests in a batch
	Padding    float64 `json:"padding"`      // share of the places of batches, as long as the longest, that stays empty
	End        float64 `json:"end_seconds"`  // last completion
	Tokens     int64   `json:"total_tokens"` // prompts and outputs
}

// Metrics sums up an outcome. A request whose latency exceeds the deadline is a violation; 0: there is none.
func (o Outcome) Metrics(requests []Request, deadline time.Duration) Metrics {
	m := Metrics{Requests: len(requests), Batches: len(o.Batches)}
	latencies := make([]float64, len(requests))
	end, violations := time.Duration(0), 0
	for i, s := range o.Served {
		latency := s.Ended - requests[i].At
		latencies[i] = latency.Seconds()
		end = max(end, s.Ended)
		if deadline > 0 && latency > deadline {
			violations++
		}
		m.Tokens += int64(requests[i].Prompt + requests[i].Output)
	}
	slices.Sort(latencies)
	m.Mean = mean(latencies)
	m.P50, m.P95, m.P99 = Percentile(latencies, 0.5), Percentile(latencies, 0.95), Percentile(latencies, 0.99)
	m.Max = latencies[len(latencies)-1]
	m.Violations = float64(violations) / float64(len(requests))
	m.End = end.Seconds()
	m.Throughput = float64(len(requests)) / (end - requests[0].At).Seconds()
	m.Goodput = m.Throughput * (1 - m.Violations)
	m.BatchMean = float64(len(requests)) / float64(max(1, len(o.Batches)))
	var busy time.Duration
	for _, b := range o.Busy {
		busy += b
	}
	m.Busy = busy.Seconds() / (float64(len(o.Busy)) * m.End)
	m.Padding = o.padding(requests)
	return m
}

func (o Outcome) padding(requests []Request) float64 {
	useful, places := 0, 0
	for _, b := range o.Batches {
		longest := 0
		for _, i := range b.Requests {
			length := requests[i].Prompt + requests[i].Output
			useful += length
			longest = max(longest, length)
		}
		places += longest * len(b.Requests)
	}
	return 1 - float64(useful)/float64(max(1, places))
}

// Percentile of ascending values, on a straight line between the two nearest.
func Percentile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := share * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// Composition is how alike the requests of batches are: means over batches, of the lengths that are given.
type Composition struct {
	Batches     int     `json:"batches"`
	Requests    int     `json:"requests"`
	Mean        float64 `json:"mean"`     // length
	Variance    float64 `json:"variance"` // within a batch
	Range       float64 `json:"range"`    // longest minus shortest
	MaxOverMean float64 `json:"max_over_mean"`
	Padding     float64 `json:"padding"`
}

// Composition is of the batches for which a bin is the given one; bins number the requests.
func (o Outcome) Composition(bin int, bins func(request int) int, length func(request int) int) Composition {
	var c Composition
	sum := 0.0
	for _, b := range o.Batches {
		if bins(b.Requests[0]) != bin {
			continue
		}
		n, total, squares, least, most := float64(len(b.Requests)), 0.0, 0.0, math.Inf(1), 0.0
		for _, i := range b.Requests {
			l := float64(length(i))
			total += l
			squares += l * l
			least, most = min(least, l), max(most, l)
		}
		average := total / n
		c.Batches++
		c.Requests += len(b.Requests)
		sum += total
		c.Variance += max(0, squares/n-average*average)
		c.Range += most - least
		if most > 0 {
			c.MaxOverMean += most / average
			c.Padding += 1 - average/most
		}
	}
	if c.Batches > 0 {
		n := float64(c.Batches)
		c.Mean = sum / float64(c.Requests)
		c.Variance, c.Range, c.MaxOverMean, c.Padding = c.Variance/n, c.Range/n, c.MaxOverMean/n, c.Padding/n
	}
	return c
}

// BatchSeconds is how long engines take for a batch of b requests of which the longest has so many tokens.
type BatchSeconds func(b, longest int) (float64, error)

// Infeasible is how many requests miss the deadline even alone on an idle engine: no scheduler can help them.
func Infeasible(requests []Request, seconds BatchSeconds, deadline time.Duration) (int, error) {
	n := 0
	for _, r := range requests {
		alone, err := seconds(1, r.Prompt+r.Output)
		if err != nil {
			return 0, err
		}
		if alone > deadline.Seconds() {
			n++
		}
	}
	return n, nil
}

// Load is rho: the work that the requests bring in a second, in full batches of the given size in order of arrival,
// over what the engines can do. Above 1 such batches cannot keep up.
func Load(requests []Request, seconds BatchSeconds, batch, engines int) (float64, error) {
	span := (requests[len(requests)-1].At - requests[0].At).Seconds()
	if span <= 0 {
		return 0, errors.New("all requests come at once: their load is not defined")
	}
	work := 0.0
	for part := range slices.Chunk(requests, batch) {
		longest := 0
		for _, r := range part {
			longest = max(longest, r.Prompt+r.Output)
		}
		took, err := seconds(len(part), longest)
		if err != nil {
			return 0, err
		}
		work += took
	}
	return work / (span * float64(engines)), nil
}
