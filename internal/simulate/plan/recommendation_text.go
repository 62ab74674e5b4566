package plan

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
)

// text is the recommendation in one line, with the cheaper and the faster neighbour:
// "5 engines at depth 2: 152 s; 4 engines would take 190 s; a sixth buys 0.4 s for $1.89/h".
func (p *Plan) text(r Request, best *Cell, cells []*Cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at depth %d", units.Counted(best.Engines, "engine"), best.Depth)
	if len(r.Grid.Groups) > 1 {
		fmt.Fprintf(&b, ", %s a step", units.Counted(best.Groups, "group"))
	}
	if len(r.Grid.Samples) > 1 {
		fmt.Fprintf(&b, ", %s a group", units.Counted(best.Samples, "game"))
	}
	fmt.Fprintf(&b, ": %s", units.Seconds(best.Step.Mean))
	if p.Price > 0 {
		fmt.Fprintf(&b, " and %s a step", Dollars(best.StepCost))
	}
	var next, fewer *Cell
	for _, c := range cells {
		switch {
		case c.Depth != best.Depth:
		case c.Engines > best.Engines && (next == nil || c.Engines < next.Engines):
			next = c
		case c.Engines < best.Engines && (fewer == nil || c.Engines > fewer.Engines):
			fewer = c
		}
	}
	if fewer != nil {
		fmt.Fprintf(&b, "; %s would take %s", units.Counted(fewer.Engines, "engine"), units.Seconds(fewer.Step.Mean))
		if p.Price > 0 {
			fmt.Fprintf(&b, " and %s", Dollars(fewer.StepCost))
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
			units.Counted(now.Engines, "engine"), now.Depth, units.Seconds(now.Step.Mean), units.Percent(now.StarvedShare)))
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
	with := "with " + units.Counted(engines, "engine")
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
		units.Counted(few.Engines, "engine"), units.Seconds(many.Step.Mean), many.Engines, depth)}
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
