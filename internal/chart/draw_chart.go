package chart

import (
	"fmt"
	"math"
)

// draw puts the chart's parts, from the head down and from the back to the front.
func (c Chart) draw(d *drawing) {
	top := c.drawHead(d)
	p := newPlot(c, top)
	p.drawAxes(d)
	fixed := c.X.Max > c.X.Min || c.Y.Max > c.Y.Min
	if fixed { // what lies outside is cut off
		d.put(`<svg x="%s" y="%s" width="%s" height="%s">`, px(p.left), px(p.top), px(p.width), px(p.height))
	} else {
		d.put(`<g transform="translate(%s %s)">`, px(p.left), px(p.top))
	}
	for i, s := range c.Series {
		if s.Context {
			p.drawSeries(d, i)
		}
	}
	p.drawGuides(d)
	for i, s := range c.Series {
		if !s.Context {
			p.drawSeries(d, i)
		}
	}
	p.occupy()
	p.nameGuides(d)
	p.drawLabels(d)
	if p.empty() {
		d.write("muted", "middle", p.width/2, p.height/2, "no values")
	}
	if fixed {
		d.put("</svg>")
	} else {
		d.put("</g>")
	}
}

func (p *plot) empty() bool {
	for _, s := range p.Series {
		if len(s.Points) > 0 {
			return false
		}
	}
	return true
}

// drawHead puts title, subtitle, legend and the Y axis' name, and returns where they end.
func (c Chart) drawHead(d *drawing) float64 {
	w, _ := c.size()
	wide := float64(w) - 2*margin
	y := float64(margin)
	for _, line := range lines(clean(c.Title), titleSize, wide, 2) {
		y += titleHeight
		d.write("title", "start", margin, y-5, line)
	}
	for _, line := range lines(clean(c.Subtitle), textSize, wide, 2) {
		y += rowHeight
		d.write("muted", "start", margin, y-4, line)
	}
	y = c.drawLegend(d, y, wide)
	if name := titled(c.Y, ""); name != "" {
		y += rowHeight
		d.write("muted", "start", margin, y-2, fitting(clean(name), textSize, wide))
	}
	return y + 8
}

const (
	swatch       = 18
	longestName  = 220 // pixels of a series' name
	legendIndent = 6
)

// drawLegend puts the names of the series, in as many rows as they take.
func (c Chart) drawLegend(d *drawing, y, wide float64) float64 {
	x := float64(margin)
	drawn := false
	for i, style := range c.seriesStyles() {
		s := c.Series[i]
		if s.Name == "" {
			continue
		}
		name := fitting(clean(s.Name), textSize, min(longestName, wide-swatch-legendIndent))
		width := swatch + legendIndent + textWidth(name, textSize)
		if !drawn || x+width > margin+wide {
			drawn = true
			x, y = margin, y+rowHeight
		}
		middle := y - 8
		switch s.Mark {
		case Line, Stairs:
			d.line("line "+style.stroke(), x, middle, x+swatch, middle)
			if s.dotted() {
				d.shape(style, x+swatch/2, middle, 3.6, "")
			}
		case Dots:
			d.shape(style, x+swatch/2, middle, 4.5, "")
		default:
			d.put(`<rect class="bar %s" x="%s" y="%s" width="12" height="12"/>`, style.fill(), px(x+3), px(middle-6))
		}
		d.write("", "start", x+swatch+legendIndent, y-4, name)
		x += width + 2*margin
	}
	return y
}

func (p *plot) drawAxes(d *drawing) {
	bottom := p.top + p.height
	for i, t := range p.y.ticks {
		y := bottom - p.y.at(t)
		d.line("grid", p.left, y, p.left+p.width, y)
		d.write("tick", "end", p.left-tickGap, y+4, p.y.text[i])
	}
	d.line("axis", p.left, bottom, p.left+p.width, bottom)
	if p.y.low < 0 && p.y.high > 0 && !p.y.log {
		d.line("axis", p.left, bottom-p.y.at(0), p.left+p.width, bottom-p.y.at(0))
	}
	lowest := bottom + tickSize + tickGap
	for i, t := range p.x.ticks {
		x := p.left + p.x.at(t)
		d.line("axis", x, bottom, x, bottom+4)
		if p.turned {
			d.put(`<text class="tick" text-anchor="end" transform="translate(%s %s) rotate(-30)">%s</text>`, px(x+4),
				px(bottom+14), escaped(p.x.text[i]))
			lowest = max(lowest, bottom+tickSize+textWidth(p.x.text[i], tickSize)*slope)
			continue
		}
		d.write("tick", "middle", x, bottom+tickSize+tickGap, p.x.text[i])
	}
	if name := titled(p.X, ""); name != "" {
		d.write("muted", "middle", p.left+p.width/2, lowest+rowHeight, fitting(clean(name), textSize, p.width))
	}
}

func (p *plot) drawGuides(d *drawing) {
	for _, g := range p.Guides {
		switch {
		case !p.shows(g):
		case g.Vertical:
			d.line("guide", p.x.at(g.At), 0, p.x.at(g.At), p.height)
		default:
			d.line("guide", 0, p.height-p.y.at(g.At), p.width, p.height-p.y.at(g.At))
		}
	}
}

// shows reports whether a guide has a place in the chart.
func (c Chart) shows(g Guide) bool {
	axis := c.Y
	if g.Vertical {
		axis = c.X
	}
	return math.Abs(g.At) <= largest && (!axis.Log || g.At > 0)
}

// nameGuides puts the guides' labels where they meet nothing, or in the first place that there is.
func (p *plot) nameGuides(d *drawing) {
	for _, g := range p.Guides {
		if g.Label == "" || !p.shows(g) {
			continue
		}
		text := fitting(clean(g.Label), tickSize, p.width*0.6)
		width := textWidth(text, tickSize)
		var places []box
		if g.Vertical {
			x := p.x.at(g.At)
			for y := 0.0; y+14 < p.height; y += 15 {
				places = append(places, box{x + 4, y, x + 4 + width, y + 14}, box{x - 4 - width, y, x - 4, y + 14})
			}
		} else {
			y := p.height - p.y.at(g.At)
			for right := p.width; right-width >= 0; right -= 20 {
				places = append(places, box{right - width, y - 16, right, y - 2}, box{right - width, y + 2, right, y + 16})
			}
		}
		at := places[0]
		for _, b := range places {
			if p.free(b) {
				at = b
				break
			}
		}
		p.taken = append(p.taken, at)
		d.write("tick", "start", at.left, at.bottom-4, text)
	}
}

// tip is what a point says when it is pointed at.
func (p *plot) tip(s Series, point Point) string {
	x := shortNumber(point.X)
	if i := int(point.X); len(p.X.Categories) > 0 && i >= 0 && i < len(p.X.Categories) {
		x = p.X.Categories[i]
	}
	if p.X.Unit != "" {
		x += " " + p.X.Unit
	}
	y := shortNumber(point.Y)
	if p.Y.Unit != "" {
		y += " " + p.Y.Unit
	}
	text := fmt.Sprintf("%s: %s", x, y)
	if s.Name != "" {
		text = s.Name + ", " + text
	}
	if point.interval() {
		text += fmt.Sprintf(" (%s to %s)", shortNumber(point.Low), shortNumber(point.High))
	}
	if point.Label != "" {
		text += ": " + point.Label
	}
	return text
}
