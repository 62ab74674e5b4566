package scaling

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
)

// Policy is by what a fleet is scaled.
type Policy string

// The policies.
const (
	Fixed      Policy = "fixed"      // so many as were said
	Queue      Policy = "queue"      // by the requests outstanding, with the semantics of Modal's autoscaler
	Starvation Policy = "starvation" // by what shortens steps
)

// Config is what an operator says about scaling. Durations are those of the samples' clock.
type Config struct {
	Policy Policy `json:"policy"`
	// Engines is how many Fixed wants.
	Engines int `json:"engines,omitempty"`
	Min     int `json:"min"`
	Max     int `json:"max"`
	// ScaleToZero is for how long no run must be active before the fleet ends altogether, whatever Min; 0: never.
	ScaleToZero rollout.Duration `json:"scale_to_zero,omitempty"`
	// Price is an engine's cost in $ per hour, and Budget bounds the hourly cost of all; 0: not set, and no bound.
	Price  float64 `json:"price,omitempty"`
	Budget float64 `json:"budget_per_hour,omitempty"`
	// ColdStart is taken for an engine's until one was seen; 0: DefaultColdStart.
	ColdStart rollout.Duration `json:"cold_start,omitempty"`

	Queue      QueueConfig      `json:"queue,omitzero"`
	Starvation StarvationConfig `json:"starvation,omitzero"`
}

// QueueConfig is Modal's settings: target_inputs, buffer_containers, scaleup_window and scaledown_window.
type QueueConfig struct {
	TargetInputs int `json:"target_inputs"` // requests, waiting or running, for each engine
	// Buffer is how many engines there are beyond what the requests ask for, while there are any.
	Buffer int `json:"buffer,omitempty"`
	// ScaleUp is for how long more engines must be wanted before they are started.
	ScaleUp rollout.Duration `json:"scale_up_window,omitempty"`
	// ScaleDown is for how long an engine must not be wanted before it ends.
	ScaleDown rollout.Duration `json:"scale_down_window,omitempty"`
}

// StarvationConfig is the settings of Starvation.
type StarvationConfig struct {
	// TargetStep is a step time that is short enough, even where the trainer alone would be faster; 0: the trainer's.
	TargetStep rollout.Duration `json:"target_step,omitempty"`
	// HeadRoom is how much more than a run needs is bought, as a share; 0: DefaultHeadRoom.
	HeadRoom float64 `json:"head_room,omitempty"`
}

// What holds where a Config says nothing.
const (
	DefaultColdStart = 2 * time.Minute
	DefaultHeadRoom  = 0.05
)

// MostEngines bounds a fleet.
const MostEngines = 1024

// Validate reports all faults together.
func (c Config) Validate() error {
	var faults settings.Checks
	check := faults.Require
	check(c.Policy == Fixed || c.Policy == Queue || c.Policy == Starvation,
		"scaling.policy %q: want fixed, queue or starvation", c.Policy)
	check(c.Min >= 0 && c.Min <= MostEngines, "scaling.min %d: want 0 to %d", c.Min, MostEngines)
	check(c.Max >= 1 && c.Max <= MostEngines, "scaling.max %d: want 1 to %d", c.Max, MostEngines)
	check(c.Min <= c.Max, "scaling.max %d is less than min, which is %d: raise max or lower min", c.Max, c.Min)
	check(c.Policy != Fixed || c.Engines >= c.Min && c.Engines <= c.Max,
		"scaling.engines %d: policy fixed wants as many as are said, from min to max, which are %d and %d", c.Engines,
		c.Min, c.Max)
	check(isAmount(c.Price), "scaling.price %v: want $ per engine and hour, 0 if not known", c.Price)
	check(isAmount(c.Budget), "scaling.budget_per_hour %v: want $, 0 for no bound", c.Budget)
	check(affordable(c.Budget, c.Price) >= max(1, c.Min),
		"scaling.budget_per_hour %v does not pay for the fewest engines, %d, at a price of %v: raise it or lower min",
		c.Budget, max(1, c.Min), c.Price)
	for _, length := range []struct {
		name string
		of   rollout.Duration
	}{
		{"scale_to_zero", c.ScaleToZero}, {"cold_start", c.ColdStart}, {"queue.scale_up_window", c.Queue.ScaleUp},
		{"queue.scale_down_window", c.Queue.ScaleDown}, {"starvation.target_step", c.Starvation.TargetStep},
	} {
		check(length.of >= 0 && length.of.Std() <= 24*time.Hour, "scaling.%s %v: want 0s to 24h", length.name, length.of)
	}
	check(c.Policy != Queue || c.Queue.TargetInputs > 0, "scaling.queue.target_inputs %d: policy queue needs at least 1",
		c.Queue.TargetInputs)
	check(c.Queue.Buffer >= 0 && c.Queue.Buffer <= MostEngines, "scaling.queue.buffer %d: want 0 to %d", c.Queue.Buffer,
		MostEngines)
	check(c.Starvation.HeadRoom >= 0 && c.Starvation.HeadRoom <= 1, "scaling.starvation.head_room %v: want 0 to 1",
		c.Starvation.HeadRoom)
	return faults.Err()
}

// Affordable is how many engines the budget pays for, MostEngines where nothing bounds it.
func (c Config) Affordable() int { return affordable(c.Budget, c.Price) }

func isAmount(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

// affordable is how many engines a budget pays for.
func affordable(budget, price float64) int {
	if budget <= 0 || price <= 0 {
		return MostEngines
	}
	return int(min(MostEngines, math.Floor(budget/price*(1+1e-9))))
}

// Effective is the Config with defaults filled in.
func (c Config) Effective() Config {
	if c.Starvation.HeadRoom <= 0 {
		c.Starvation.HeadRoom = DefaultHeadRoom
	}
	if c.ColdStart <= 0 {
		c.ColdStart = rollout.Duration(DefaultColdStart)
	}
	return c
}
