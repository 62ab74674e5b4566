package diplomacyview

import (
	_ "embed"
	"html"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

//go:embed legend.svg
var legend string

// header writes what is shown, and what the marks mean.
func (d *drawing) header() {
	p := d.phase.state.Phase()
	d.put(`<text class="title" x="24" y="38">%s</text>`, html.EscapeString(title(p)))
	d.put("%s", legend)
}

const (
	lineHeight  = 17.0
	panelTop    = headerHeight + 24.0
	panelHeight = mapHeight + headerHeight - panelTop
)

// panel lists every power with its orders. The lines move closer when there are too many for the sheet.
func (d *drawing) panel() {
	lines := 0.0
	for p := range d.m.Powers() {
		lines += 1.5 + float64(len(d.phase.orders[p]))
	}
	step := min(lineHeight, panelHeight/max(lines, 1))
	x, y := float64(mapWidth+20), panelTop
	for p, name := range d.m.Powers() {
		power := diplomacy.Power(p)
		d.put(`<rect class="f%d" x="%.0f" y="%.1f" width="11" height="11" rx="2"/>`, p%7, x, y-10)
		d.put(`<text class="power" x="%.0f" y="%.1f">%s</text>`, x+18, y, html.EscapeString(displayName(name)))
		d.put(`<text class="small" x="%.0f" y="%.1f" text-anchor="end">%s</text>`, x+panelWidth-40, y,
			holdings(d.phase.state, power))
		y += step
		for _, o := range d.phase.orders[p] {
			d.put(`<text class="line" x="%.0f" y="%.1f">%s <tspan class="bad">%s</tspan></text>`,
				x+18, y, html.EscapeString(o.text), html.EscapeString(strings.Join(o.results, ", ")))
			y += step
		}
		y += step / 2
	}
}

func holdings(s *diplomacy.State, p diplomacy.Power) string {
	if s.Eliminated(p) {
		return "eliminated"
	}
	return plural(s.CenterCount(p), "centre") + ", " + plural(s.UnitCount(p), "unit")
}
