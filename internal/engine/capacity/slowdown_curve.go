package capacity

import "math"

// Curve is how much more slowly a request is answered the more of them an engine has in flight. Its zero value is an
// engine whose requests do not feel each other.
type Curve struct {
	Half float64 `json:"half"` // h: the most that an engine does, in requests per time of one alone; 0: no bound
	Knee float64 `json:"knee"` // k: how sharply requests begin to feel each other; 0 counts as 1
	// Flat is the load above which throughput does not grow at all; 0: there is no such load.
	Flat float64 `json:"flat,omitempty"`
}

// Slowdown is how many times as long a request takes with n in flight as alone.
func (c Curve) Slowdown(n float64) float64 {
	if c.Flat > 0 && n > c.Flat {
		return Curve{Half: c.Half, Knee: c.Knee}.Slowdown(c.Flat) * n / c.Flat
	}
	if c.Half <= 0 || !(n > 0) {
		return 1
	}
	switch x := n / c.Half; c.Knee {
	case 0, 1:
		return 1 + x
	case 2:
		return math.Sqrt(1 + x*x)
	case 4:
		return math.Sqrt(math.Sqrt(1 + x*x*x*x))
	default:
		return math.Pow(1+math.Pow(x, c.Knee), 1/c.Knee)
	}
}

// Rise is the share of one more request in flight, beside n, that becomes throughput: 1 when requests do not feel each
// other, 0 when tokens per second stay as they are.
func (c Curve) Rise(n float64) float64 {
	if c.Flat > 0 && n > c.Flat {
		return 0
	}
	if c.Half <= 0 || !(n > 0) {
		return 1
	}
	return 1 / (1 + math.Pow(n/c.Half, max(1, c.Knee)))
}

// CurveWith is the curve that has a rise at a load.
func CurveWith(rise, load, knee float64) Curve {
	if rise >= 1 || !(load > 0) {
		return Curve{}
	}
	return Curve{Half: load / math.Pow((1-rise)/rise, 1/knee), Knee: knee}
}
