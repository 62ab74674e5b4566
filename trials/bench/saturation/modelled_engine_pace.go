package saturation

import "time"

// Modelled engines: a decode step takes as long as on an A100 with a 7B model and LoRA, and longer with each request.
const (
	stepTime       = 15 * time.Millisecond
	stepPerRequest = 100 * time.Microsecond
)

// pace is how long a modelled engine takes for an answer.
func pace(running, tokens int) time.Duration {
	return time.Duration(tokens) * (stepTime + time.Duration(running)*stepPerRequest)
}
