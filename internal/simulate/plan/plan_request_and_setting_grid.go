package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/simulate/sim"
)

// DefaultSeeds is how often a setting is simulated.
const DefaultSeeds = 5

// Most is the largest grid, in settings.
const Most = 10_000

// Request is what is asked: a setup, and what of it may be otherwise.
type Request struct {
	Setup sim.Setup
	Grid  Grid
	Seeds int // simulations of each setting; 0: DefaultSeeds
	// Price is what an engine costs, in $ per hour; 0: nothing is said of money.
	Price float64
	// TargetSec is the step time that is wanted; 0: the fastest.
	TargetSec  float64
	Conditions Conditions
}

// Grid is the values that are tried, each with each of the others; none: the setup's own.
type Grid struct {
	Engines []int
	Depths  []int
	Groups  []int // per step
	Samples []int // games of a group
}

// own is the setting of the setup itself.
func (r Request) own() Setting {
	s := r.Setup
	return Setting{s.Fleet.Engines, s.Buffer.Depth, s.Buffer.GroupsPerStep, s.Group.Samples}
}

func (r Request) withDefaults() Request {
	own := r.own()
	for _, values := range []struct {
		of  *[]int
		own int
	}{{&r.Grid.Engines, own.Engines}, {&r.Grid.Depths, own.Depth}, {&r.Grid.Groups, own.Groups},
		{&r.Grid.Samples, own.Samples}} {
		if len(*values.of) == 0 {
			*values.of = []int{values.own}
		}
		*values.of = slices.Compact(slices.Sorted(slices.Values(*values.of)))
	}
	r.Seeds = cmp.Or(r.Seeds, DefaultSeeds)
	return r
}

// Size is how many settings the grid of a request has.
func (r Request) Size() int {
	g := r.withDefaults().Grid
	return len(g.Engines) * len(g.Depths) * len(g.Groups) * len(g.Samples)
}

// Validate reports what is wrong with a request.
func (r Request) Validate() error {
	switch n := r.Size(); {
	case n > Most:
		return fmt.Errorf("a grid of %d settings; %d is the most: take fewer values", n, Most)
	case r.Seeds < 0:
		return fmt.Errorf("%d seeds: take 1 or more", r.Seeds)
	case r.Price < 0:
		return fmt.Errorf("a price of %g $: take 0 or more", r.Price)
	case r.TargetSec < 0:
		return fmt.Errorf("a target of %g s: take more than 0", r.TargetSec)
	}
	return r.Conditions.validate(slices.Max(append([]int{0}, r.Grid.Engines...)))
}

// settings is the grid, place by place: batches, then engines, then depths.
func (r Request) settings() []Setting {
	var out []Setting
	for _, groups := range r.Grid.Groups {
		for _, samples := range r.Grid.Samples {
			for _, engines := range r.Grid.Engines {
				for _, depth := range r.Grid.Depths {
					out = append(out, Setting{engines, depth, groups, samples})
				}
			}
		}
	}
	return out
}
