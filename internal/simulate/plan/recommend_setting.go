package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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
	text := fmt.Sprintf("no setting with %s of %s a step was simulated", count(b.Groups, "group"),
		count(b.Samples, "game"))
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

// text is the recommendation in one line: "5 engines at depth 2: 152 s; a sixth buys 0.4 s for $1.89/h".
func (p *Plan) text(r Request, best *Cell, cells []*Cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at depth %d", count(best.Engines, "engine"), best.Depth)
	if len(r.Grid.Groups) > 1 {
		fmt.Fprintf(&b, ", %s a step", count(best.Groups, "group"))
	}
	if len(r.Grid.Samples) > 1 {
		fmt.Fprintf(&b, ", %s a group", count(best.Samples, "game"))
	}
	fmt.Fprintf(&b, ": %s", units.Seconds(best.Step.Mean))
	if p.Price > 0 {
		fmt.Fprintf(&b, " and %s a step", Dollars(best.StepCost))
	}
	var next *Cell
	for _, c := range cells {
		if c.Depth == best.Depth && c.Engines > best.Engines && (next == nil || c.Engines < next.Engines) {
			next = c
		}
	}
	if next == nil {
		b.WriteString("; more engines were not tried")
		return b.String()
	}
	more := next.Engines - best.Engines
	buys, who := "buys", article(next.Engines)
	if more > 1 {
		buys, who = "buy", fmt.Sprintf("%d more", more)
	}
	gain := "nothing"
	if saved := best.Step.Mean - next.Step.Mean; saved >= 0.0005*best.Step.Mean && units.Number(saved) != "0" {
		gain = units.Seconds(saved)
	}
	fmt.Fprintf(&b, "; %s %s %s", who, buys, gain)
	if p.Price > 0 {
		fmt.Fprintf(&b, " for %s/h", Dollars(p.Price*float64(more)))
	}
	return b.String()
}

// reasons says whether depth, and engines, would help.
func (p *Plan) reasons(r Request, best *Cell, cells []*Cell) []string {
	var out []string
	own := r.own()
	if now := p.Now; now != nil && now.Batch() == best.Batch() && now.Setting != best.Setting {
		name := "now"
		if len(p.Conditions) > 0 {
			name = "with what there is now"
		}
		out = append(out, fmt.Sprintf("%s: %s at depth %d: %s, %s of it waiting for games", name,
			count(now.Engines, "engine"), now.Depth, units.Seconds(now.Step.Mean), units.Percent(now.StarvedShare)))
	}
	out = append(out, depthReason(best.Engines, best.Depth, cells)...)
	if best.Engines != own.Engines && best.Batch() == own.Batch() {
		out = append(out, depthReason(own.Engines, own.Depth, cells)...)
	}
	if best.Depth != own.Depth && best.Batch() == own.Batch() {
		out = append(out, engineReason(own.Depth, best, cells)...)
	}
	return out
}

// depthReason says what more depth than this does for so many engines.
func depthReason(engines, depth int, cells []*Cell) []string {
	var at, deepest, bestDeeper *Cell
	for _, c := range cells {
		if c.Engines != engines {
			continue
		}
		if c.Depth == depth {
			at = c
		}
		if c.Depth > depth {
			if deepest == nil || c.Depth > deepest.Depth {
				deepest = c
			}
			if bestDeeper == nil || c.Step.Mean < bestDeeper.Step.Mean {
				bestDeeper = c
			}
		}
	}
	if at == nil || deepest == nil {
		return nil
	}
	with := "with " + count(engines, "engine")
	if bestDeeper.Step.Mean >= at.Step.Mean*(1-near) {
		return []string{fmt.Sprintf("%s more depth would not help: %s at depth %d, %s at depth %d", with,
			units.Seconds(at.Step.Mean), depth, units.Seconds(deepest.Step.Mean), deepest.Depth)}
	}
	return []string{fmt.Sprintf("%s depth %d gives %s instead of %s at depth %d", with, bestDeeper.Depth,
		units.Seconds(bestDeeper.Step.Mean), units.Seconds(at.Step.Mean), depth)}
}

// engineReason says what engines alone do at a depth.
func engineReason(depth int, best *Cell, cells []*Cell) []string {
	var few, many *Cell
	for _, c := range cells {
		if c.Depth != depth {
			continue
		}
		if few == nil || c.Engines < few.Engines {
			few = c
		}
		if many == nil || c.Engines > many.Engines {
			many = c
		}
	}
	if few == nil || few == many || many.Step.Mean <= best.Step.Mean*(1+near) {
		return nil
	}
	helps := "engines alone would not help"
	if many.Step.Mean < few.Step.Mean*(1-near) {
		helps = "engines alone would not be enough"
	}
	return []string{fmt.Sprintf("%s: %s with %s and %s with %d at depth %d", helps, units.Seconds(few.Step.Mean),
		count(few.Engines, "engine"), units.Seconds(many.Step.Mean), many.Engines, depth)}
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// article is one more of something that there is then n times: "a sixth", "an eighth", "a 13th".
func article(n int) string {
	names := []string{"", "a first", "a second", "a third", "a fourth", "a fifth", "a sixth", "a seventh", "an eighth",
		"a ninth", "a tenth", "an eleventh", "a twelfth"}
	if n < len(names) {
		return names[n]
	}
	ending := "th"
	if tens := n / 10 % 10; tens != 1 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	a := "a"
	if n == 18 || n/10 == 8 || n/100 == 8 {
		a = "an"
	}
	return fmt.Sprintf("%s %d%s", a, n, ending)
}

// Dollars writes money: in whole cents, and below a dollar in three digits.
func Dollars(v float64) string {
	switch {
	case v <= 0:
		return "$0"
	case v < 1:
		decimals := 2 - int(math.Floor(math.Log10(v)))
		return "$" + strconv.FormatFloat(v, 'f', min(decimals, 9), 64)
	case v < 1000:
		return fmt.Sprintf("$%.2f", v)
	}
	return fmt.Sprintf("$%.0f", v)
}
