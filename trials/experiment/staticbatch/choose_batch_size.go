package staticbatch

import "math"

// memoryBound is how many requests a batch may have, if the total of their tokens is to exceed eta with no more
// than the probability that theta stands for: theta standard deviations of the total stay free. A request has mu
// tokens with standard deviation sigma, independent of the others. (Pang, Li and Wang, "Optimizing LLM Inference
// Throughput via Memory-aware and SLA-constrained Dynamic Batching", arXiv 2503.05248, equation 12.)
func memoryBound(eta, mu, sigma, theta float64) int {
	if mu <= 0 {
		return math.MaxInt32
	}
	st := sigma * theta
	root := (math.Sqrt(st*st+4*mu*eta) - st) / (2 * mu)
	return int(root * root)
}

// sizes is the mean and the variance of requests' tokens.
type sizes struct {
	n, mean, square float64 // square: sum of squared deviations
}

const (
	enoughSizes  = 8   // to be believed
	forgetsAfter = 512 // sizes count the less the older they are
)

func (z *sizes) add(tokens float64) {
	if z.n >= forgetsAfter {
		z.square *= (forgetsAfter - 1) / z.n
		z.n = forgetsAfter - 1
	}
	z.n++
	d := tokens - z.mean
	z.mean += d / z.n
	z.square += d * (tokens - z.mean)
}

// moments is the mean and the standard deviation. As long as too few sizes are known, the guess stands
// in for both, so that first batches are small rather than too big.
func (z *sizes) moments(g guess) (mean, deviation float64) {
	if z.n < enoughSizes {
		prompt, output := g.expected(&Request{})
		tokens := float64(prompt + output)
		return tokens, tokens
	}
	return z.mean, math.Sqrt(z.square / (z.n - 1))
}

// pace steers a batch size to a time per output token. (Algorithm 2 of the paper above; its
// latency is the time between tokens, not the time of a whole batch: a long request would make any batch size too slow
// for the latter.)
type pace struct {
	low, high int // the bracket of the sizes that are tried; 0: not begun
	size      int

	batches, requests int // of the round in progress
	seconds           float64
	latest            float64 // seconds per token of the last round
}

// The paper leaves its constants open. A round is how many batches make a mean; the band is the share of the goal
// that counts as reached.
const (
	paceRound = 4
	paceBand  = 0.05
)

// target is the batch size to use now.
func (p *pace) target(most int) int {
	if p.size == 0 {
		return max(1, (1+most)/2)
	}
	return p.size
}

// add takes in a batch, and after each round moves the bracket.
func (p *pace) add(perToken float64, size int, goal float64, most int) {
	p.batches++
	p.requests += size
	p.seconds += perToken
	if p.batches < paceRound {
		return
	}
	p.latest = p.seconds / float64(p.batches)
	mean := p.requests / p.batches
	p.batches, p.requests, p.seconds = 0, 0, 0
	p.steer(p.latest, mean, goal, most)
}

// steer moves the bracket towards the sizes that reach the goal: alpha keeps it open, delta opens it again.
func (p *pace) steer(latency float64, mean int, goal float64, most int) {
	if p.high == 0 {
		p.low, p.high = 1, most
	}
	alpha := max(2, most/16)
	delta := max(1, alpha/2)
	switch band := goal * paceBand; {
	case latency > goal+band:
		p.high = max(mean, p.low+alpha)
		p.low = max(p.low-delta, 1)
	case latency < goal-band:
		p.low = min(mean, p.high-alpha)
		p.high = min(p.high+delta, most)
	default:
		p.high = min(mean+alpha/2, most)
		p.low = max(mean-alpha/2, 1)
	}
	p.size = min(max(1, (p.low+p.high)/2), most)
}
