package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/kit/units"
)

// near is how much longer than the shortest a step may be that is as good: 2 %.
const near = 0.02

// Recommendation is the setting that is best for batches of one size.
type Recommendation struct {
	Groups  int `json:"groups_per_step"`
	Samples int `json:"samples"`
	// Setting is the recommended one; absent if none was simulated.
	Setting *Setting `json:"setting,omitempty"`
	// Meets says whether the step time that was asked for is met; true if none was.
	Meets bool   `json:"meets_target"`
	Text  string `json:"text"`
	// Reasons say what else would, and would not, help.
	Reasons []string `json:"reasons,omitempty"`
}

// recommend names the best setting for each size of batch, that of the run first: how much a step trains on is not for
// a plan to decide.
//
// With a price it is the cheapest setting, by $ per step, within 2 % of the shortest step; without one the fewest
// engines, and of these the least depth, because depth costs staleness. With a target, the cheapest, or the fewest
// engines, that meets it.
func (p *Plan) recommend(r Request) {
	var batches []Batch
	for _, s := range r.settings() {
		if !slices.Contains(batches, s.Batch()) {
			batches = append(batches, s.Batch())
		}
	}
	own := r.own().Batch()
	slices.SortStableFunc(batches, func(a, b Batch) int { return cmp.Compare(differs(a, own), differs(b, own)) })
	for _, batch := range batches {
		cells := p.eligible(batch)
		rec := Recommendation{Groups: batch.Groups, Samples: batch.Samples, Meets: true}
		if len(cells) == 0 {
			rec.Text, rec.Meets = p.nothing(batch), r.TargetSec == 0
			p.Recommendations = append(p.Recommendations, rec)
			continue
		}
		best, meets := p.best(cells, r.TargetSec)
		rec.Meets, rec.Setting = meets, &best.Setting
		rec.Text = p.text(r, best, cells)
		if !meets {
			rec.Text = fmt.Sprintf("no setting of the grid meets a step of %s; the fastest is %s",
				units.Seconds(r.TargetSec), rec.Text)
		}
		rec.Reasons = p.reasons(r, best, cells)
		p.Recommendations = append(p.Recommendations, rec)
	}
}

func differs(a, b Batch) int {
	if a == b {
		return 0
	}
	return 1
}

func (p *Plan) eligible(b Batch) []*Cell {
	var out []*Cell
	for i := range p.Cells {
		if c := &p.Cells[i]; c.Eligible() && c.Batch() == b {
			out = append(out, c)
		}
	}
	return out
}

// nothing says why nothing is recommended.
func (p *Plan) nothing(b Batch) string {
	text := fmt.Sprintf("no setting with %s of %s a step was simulated", units.Counted(b.Groups, "group"),
		units.Counted(b.Samples, "game"))
	for _, c := range p.Cells {
		if c.Batch() == b && c.Refused != "" {
			return fmt.Sprintf("%s: %s", text, c.Refused)
		}
	}
	return text
}

// best is the setting that is recommended, and whether it meets the target.
func (p *Plan) best(cells []*Cell, targetSec float64) (*Cell, bool) {
	fastest := slices.MinFunc(cells, byStep)
	limit, meets := fastest.Step.Mean*(1+near), true
	if targetSec > 0 {
		if fastest.Step.Mean > targetSec {
			meets = false
		} else {
			limit = targetSec
		}
	}
	var good []*Cell
	for _, c := range cells {
		if c.Step.Mean <= limit {
			good = append(good, c)
		}
	}
	return slices.MinFunc(good, func(a, b *Cell) int {
		if p.Price > 0 {
			if by := cmp.Compare(printed(a.StepCost), printed(b.StepCost)); by != 0 {
				return by
			}
		}
		return cmp.Or(cmp.Compare(a.Engines, b.Engines), cmp.Compare(a.Depth, b.Depth), byStep(a, b))
	}), meets
}

func byStep(a, b *Cell) int { return cmp.Compare(a.Step.Mean, b.Step.Mean) }
