// Package plan answers what a run would cost with other engines, another depth or other batches: it simulates each
// setting of a grid several times and compares step times, starvation, staleness and money, marks the settings that no
// other one beats, and recommends one with its reason. It is pure: simulations and the clock are arguments.
//
// Start reading at Make; find_steady_steps.go says which steps a setting's figures are of.
package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// Simulate plays a setup: sim.Run.
type Simulate func(ctx context.Context, s sim.Setup, o sim.Options) (sim.Result, error)

// Options are what making a plan needs of the program around it.
type Options struct {
	Simulate Simulate
	Workers  int              // simulations at once; 0: one
	Now      func() time.Time // the clock that estimates are made by; nil: none are made
	// Tell, if set, hears how far the plan is, after every setting. It is not called by two at once.
	Tell func(Progress)
}

// Progress is how far a plan is.
type Progress struct {
	Done, Of int           // settings
	Left     time.Duration // estimated; 0: not known
}

// Plan is the settings of a grid, compared.
type Plan struct {
	Run   rollout.RunName `json:"run"`
	Seeds int             `json:"seeds"`
	Steps rollout.Step    `json:"steps,omitempty"` // the run's own
	Price float64         `json:"price_per_engine_hour,omitempty"`
	// TargetSec is the step time that was asked for.
	TargetSec float64 `json:"target_step_seconds,omitempty"`
	// Conditions is what is otherwise in all settings, in words.
	Conditions []string `json:"conditions,omitempty"`
	// Complete reports whether every setting was simulated: nobody interrupted.
	Complete bool   `json:"complete"`
	Cells    []Cell `json:"cells"`
	// Now is the figures of the run's own setting; absent if that was not simulated.
	Now *Cell `json:"now,omitempty"`
	// Unchanged is the figures of the recommended setting without the conditions.
	Unchanged       *Cell            `json:"without_conditions,omitempty"`
	Recommendations []Recommendation `json:"recommendations"` // one for each batch size
	Notes           []string         `json:"notes,omitempty"`
}

// Setting is one place of the grid.
type Setting struct {
	Engines int `json:"engines"`
	Depth   int `json:"depth"`
	Groups  int `json:"groups_per_step"`
	Samples int `json:"samples"`
}

// Batch is what of a setting decides how much a step trains on.
type Batch struct{ Groups, Samples int }

// Batch is the setting's batch.
func (s Setting) Batch() Batch { return Batch{s.Groups, s.Samples} }

// Cell is one setting with its figures, which are means over steady steps, of all seeds. Refused ones have none.
type Cell struct {
	Setting
	Refused string `json:"refused,omitempty"` // why it cannot be simulated

	Step         stat.Interval `json:"step_seconds"` // 95 %, over the seeds
	StarvedShare float64       `json:"starved_share"`
	// Staleness is of the trained groups, in versions.
	StalenessMean float64 `json:"staleness_mean"`
	StalenessMax  int64   `json:"staleness_max"`
	BusyShare     float64 `json:"busy_share"` // of engine time, with at least one request
	SlotShare     float64 `json:"slot_share"` // of the engines' limits, in use
	InputTPS      float64 `json:"input_tps"`
	OutputTPS     float64 `json:"output_tps"`
	TrainedTokens float64 `json:"trained_tokens_per_step"` // prompts and completions
	DroppedShare  float64 `json:"dropped_share"`           // of the groups that were launched and have ended
	EngineHours   float64 `json:"engine_hours_per_step"`
	StepCost      float64 `json:"dollars_per_step,omitempty"`
	TokenCost     float64 `json:"dollars_per_million_trained_tokens,omitempty"`
	PrefillSec    float64 `json:"prefill_seconds"` // before the first step
	Steps         int     `json:"steady_steps"`    // of each seed, which the figures are of
	// Unsteady says that the step time still changed at the end of the longest simulation.
	Unsteady bool `json:"unsteady,omitempty"`
	// BeforeSec is the step time before the step at which engines are lost; 0: none are.
	BeforeSec float64 `json:"before_loss_seconds,omitempty"`
	// NeedsStaleness is the max_staleness that admits the depth, where the run's own does not.
	NeedsStaleness int64 `json:"needs_max_staleness,omitempty"`
	// Frontier says that no other setting of the same batch is better in one respect and worse in none.
	Frontier bool `json:"frontier"`
}

// Eligible reports whether the setting may be recommended.
func (c *Cell) Eligible() bool { return c.Refused == "" && c.NeedsStaleness == 0 && !c.Unsteady }

// Make simulates the grid. Interrupted, it returns what is known, with the context's error.
func Make(ctx context.Context, r Request, o Options) (*Plan, error) {
	r = r.withDefaults()
	if err := r.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Run: r.Setup.Name, Seeds: r.Seeds, Steps: rollout.Step(r.Setup.Spec.Steps), Price: r.Price,
		TargetSec: r.TargetSec, Conditions: r.Conditions.Texts(), Recommendations: []Recommendation{}}
	cells, err := playGrid(ctx, r, o)
	p.Complete = err == nil
	if err != nil && !errors.Is(err, ctx.Err()) {
		return nil, err
	}
	if reason := allRefused(cells); reason != "" && err == nil {
		return nil, fmt.Errorf("nothing can be simulated: %s", reason)
	}
	p.Cells = cells
	p.markFrontier()
	if now := p.cell(r.own()); now != nil {
		copied := *now
		p.Now = &copied
	}
	p.recommend(r)
	if err == nil && !r.Conditions.Empty() && len(p.Recommendations) > 0 {
		err = p.withoutConditions(ctx, r, o)
	}
	p.Notes = append(p.Notes, p.notes(r)...)
	return p, err
}

// withoutConditions simulates the recommended setting as it would be otherwise.
func (p *Plan) withoutConditions(ctx context.Context, r Request, o Options) error {
	if p.Recommendations[0].Setting == nil {
		return nil
	}
	r.Conditions = Conditions{}
	c, err := playCell(ctx, r, *p.Recommendations[0].Setting, o.Simulate)
	if err != nil {
		return err
	}
	p.Unchanged = &c
	return nil
}

// allRefused is why no setting has figures; empty where one has.
func allRefused(cells []Cell) string {
	reason := ""
	for _, c := range cells {
		if c.Refused == "" {
			return ""
		}
		reason = c.Refused
	}
	return reason
}

func (p *Plan) cell(s Setting) *Cell {
	i := slices.IndexFunc(p.Cells, func(c Cell) bool { return c.Setting == s && c.Refused == "" })
	if i < 0 {
		return nil
	}
	return &p.Cells[i]
}

// notes says what the figures do not show by themselves.
func (p *Plan) notes(r Request) []string {
	var notes []string
	if speed := r.Setup.Demo.Speed; r.Setup.Fleet.TimeFactor > 0 && r.Setup.Fleet.TimeFactor < 1 && speed > 1 {
		notes = append(notes, fmt.Sprintf("times are those of a demo at %g times the speed of its hardware: on the "+
			"hardware, times and money are about %g times as much", speed, speed))
	}
	for _, c := range p.Cells {
		if c.NeedsStaleness > 0 {
			b := r.Setup.Buffer
			notes = append(notes, fmt.Sprintf("max_staleness %d admits %d batches, and depth %d is held to that; for more: "+
				"--set buffer.max_staleness=%d", b.MaxStaleness, b.AdmittedSteps(0), c.Depth, slices.Max(r.Grid.Depths)))
			break
		}
	}
	if r.Setup.League.Slots > 0 {
		notes = append(notes, "the league is not simulated: its opponents' turns are asked of the learner's version")
	}
	if slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Unsteady }) {
		notes = append(notes, "settings marked ~ were still changing at the end of the longest simulation and are not "+
			"recommended")
	}
	return notes
}
