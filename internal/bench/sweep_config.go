package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// SweepConfig says which settings of batching are compared, and with which requests. Start from DefaultSweepConfig.
type SweepConfig struct {
	URLs    []string // engines; none: simulated ones
	Engines int      // simulated ones
	Model   string   // as in Config
	Speed   float64  // of simulated engines: windows and gaps are divided by it, and times multiplied

	Windows    []time.Duration         // flush windows
	MaxBatches []int                   // requests in one call; 0: each its own, all at once
	Orders     []rollout.DispatchOrder // in which requests are served

	Requests     int           // of a trial
	OutputTokens []int         // that answers have, in turn
	FreeLength   bool          // answers may end earlier, where the model ends them
	PromptWords  int           // of a request, about
	Gap          time.Duration // mean time from one request to the next; 0: all come at once

	Trials  int    // counted ones, of every setting
	Warmup  int    // rounds through all settings before, not counted
	Seed    uint64 // of the order of settings and of the gaps
	Timeout time.Duration

	Say func(format string, args ...any)
}

// DefaultSweepConfig is the sweep of seed note 002: 8 requests of 64 tokens.
func DefaultSweepConfig() SweepConfig {
	return SweepConfig{
		Engines: 1, Speed: 1,
		Windows: []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
			50 * time.Millisecond},
		MaxBatches: []int{2, 4, 8},
		Orders:     []rollout.DispatchOrder{rollout.ArrivalOrder, rollout.ShortestFirst},
		Requests:   8, OutputTokens: []int{64}, PromptWords: 32,
		Trials: 5, Warmup: 1, Seed: 1, Timeout: 10 * time.Minute,
	}
}

// Validate reports everything that is wrong with c.
func (c SweepConfig) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(len(c.Windows) > 0 && len(c.MaxBatches) > 0 && len(c.Orders) > 0, "give at least one window, one "+
		"maximum batch and one order")
	require(slices.Min(append(c.Windows, 0)) >= 0, "windows: one is negative")
	require(slices.Min(append(c.MaxBatches, 0)) >= 0, "max batch: one is negative")
	require(distinct(c.Windows) && distinct(c.MaxBatches) && distinct(c.Orders), "a setting is given twice")
	for _, o := range c.Orders {
		require(slices.Contains(sweepOrders, o), "orders: %q is none of %v", o, sweepOrders)
	}
	require(c.Requests >= 1, "requests: %d is less than 1", c.Requests)
	require(len(c.OutputTokens) > 0 && slices.Min(append(c.OutputTokens, 1)) >= 1, "output tokens: want 1 or more")
	require(c.PromptWords >= 1, "prompt words: %d is less than 1", c.PromptWords)
	require(c.Gap >= 0, "gap: %v is negative", c.Gap)
	require(c.Trials >= 1, "trials: %d is less than 1", c.Trials)
	require(c.Warmup >= 0, "warmup: %d is negative", c.Warmup)
	require(c.Speed > 0, "speed: %g is not positive", c.Speed)
	require(len(c.URLs) == 0 || c.Speed == 1, "speed: real engines run at speed 1")
	require(len(c.URLs) > 0 || c.Engines >= 1, "engines: %d is less than 1", c.Engines)
	return errors.Join(errs...)
}

var sweepOrders = []rollout.DispatchOrder{rollout.ArrivalOrder, rollout.ShortestFirst, rollout.OldestGroup}

func distinct[T comparable](values []T) bool {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return false
		}
	}
	return true
}

// SweepCell is one setting of a sweep.
type SweepCell struct {
	Window   time.Duration
	MaxBatch int
	Order    rollout.DispatchOrder
}

// cells is every setting, in the order of the table.
func (c SweepConfig) cells() []SweepCell {
	var all []SweepCell
	for _, w := range c.Windows {
		for _, b := range c.MaxBatches {
			for _, s := range c.Orders {
				all = append(all, SweepCell{w, b, s})
			}
		}
	}
	return all
}

// rules is how the dispatcher is told a setting. Engines at speed 30 see windows 30 times as short.
func (s SweepCell) rules(speed float64) rollout.Dispatch {
	rules := rollout.Dispatch{Policy: rollout.LeastTokens, AffinitySlack: -1, Order: s.Order}
	if s.MaxBatch > 0 {
		rules.Batching = rollout.Batching{MaxBatchSize: s.MaxBatch,
			FlushWindow: rollout.Duration(float64(s.Window) / speed)}
	}
	return rules
}
