// Package chart draws series of numbers over one axis as SVG: lines, stairs, dots and stacked columns with ticks at
// round numbers, and a text for those who do not see it. They stand in the operator's page, whose style sheet colours
// them. A drawing needs no script, and the same panel gives the same bytes.
//
// Start reading at Panel.
package chart

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"
)

// Panel is one of several pictures below each other that share an axis, such as the time of a run. It fits any width:
// marks are stretched, and texts keep their size. Its colours are classes of the page's style sheet (c-NAME), so that
// it can stand in a page that allows no styles within it. Title, unit, legend and table stand beside it in the page,
// which leaves room on its left for the values of its axis.
type Panel struct {
	Description string // the text alternative
	From, To    float64
	Height      int     // in pixels; 0: 160
	Layers      []Layer // of the columns, from the bottom up
	Columns     []Column
	Lines       []PanelLine
	Guides      []Guide
	Flags       []Flag
	Ticks       []PanelTick
	Cut         bool // the axis ends below a few values far above the others, which are marked
}

// Layer is one part of every column.
type Layer struct{ Name, Class string }

// Column is a stretch of the axis with one value for each layer.
type Column struct {
	From, To float64
	Values   []float64
	Tip      string // what it says when it is pointed at
}

// PanelLine is points in the order of X; a Y that is not a number is a gap.
type PanelLine struct {
	Name, Class string
	Stairs      bool // each value lasts until the next point
	Dots        bool // each point stands alone
	Points      []Point
}

// Point is one value. A Y that is not a number is a gap.
type Point struct {
	X, Y float64
	// Low and High are the ends of an interval around Y; it is drawn if High is above Low.
	Low, High float64
	Label     string // beside it
}

// interval reports whether the point has one.
func (p Point) interval() bool { return p.High > p.Low && isNumber(p.High-p.Low) }

// Guide is a straight line across the panel at one value, such as a target.
type Guide struct {
	At    float64
	Label string
}

// Flag is something that happened at one place of the axis.
type Flag struct {
	At    float64
	Class string
	Tip   string
	Label string // beside it, for what must not be missed
	Minor bool   // a dot without a line: it happens all the time
}

// PanelTick is a place of the axis with its name. One that is Minor is left out where there is little room.
type PanelTick struct {
	At    float64
	Text  string
	Time  string // machine-readable, so that the page can say it in the reader's time zone
	Minor bool
}

const (
	panelWidth  = 1000 // units of the stretched drawing
	panelTop    = 14
	panelBottom = 20
	largest     = 1e15 // beyond it, neighbouring numbers are the same in print
)

// WriteSVG writes the panel as an element to stand in a page.
func (p Panel) WriteSVG(w io.Writer) error {
	p.Height = cmp.Or(p.Height, 160)
	if !(p.To > p.From) || !isNumber(p.To-p.From) {
		p.To = p.From + 1
	}
	d := &drawing{}
	plot := float64(p.Height - panelTop - panelBottom)
	low, high := p.values()
	cut, beyond := p.outliers()
	if beyond = beyond && p.Cut; beyond {
		high = cut
		for _, g := range p.Guides {
			high = max(high, g.At)
		}
	}
	y := newScale(low, high, plot)
	d.put(`<svg class="panel" height="%d" role="img" aria-label="%s" data-from="%s" data-to="%s">`, p.Height,
		escaped(p.Description), wide(p.From), wide(p.To))
	p.drawGrid(d, &y, plot)
	d.put(`<svg class="marks" x="0" y="%d" width="100%%" height="%s" viewBox="0 0 %d %s" preserveAspectRatio="none">`,
		panelTop, px(plot), panelWidth, px(plot))
	p.drawLayers(d, &y)
	for _, line := range p.Lines {
		p.drawPanelLine(d, &y, line)
	}
	d.put("</svg>")
	for _, g := range p.Guides {
		at := px(panelTop + plot - y.at(g.At))
		d.put(`<line class="guide" x1="0" x2="100%%" y1="%s" y2="%s"/>`, at, at)
		if g.Label != "" {
			d.put(`<text class="tick" text-anchor="end" x="100%%" y="%s" dy="-4">%s</text>`, at, escaped(g.Label))
		}
	}
	p.drawTexts(d, &y, plot)
	if beyond {
		p.drawBeyond(d, &y)
	}
	for _, c := range p.Columns {
		if c.Tip != "" {
			d.put(`<rect class="hover" x="%s" width="%s" y="%d" height="%s"><title>%s</title></rect>`, p.share(c.From),
				percent((c.To-c.From)/(p.To-p.From)), panelTop, px(plot), escaped(c.Tip))
		}
	}
	for _, f := range p.Flags {
		p.drawFlag(d, f, plot)
	}
	for _, line := range p.Lines {
		for _, point := range line.Points {
			if point.Label != "" && isNumber(point.Y) {
				p.label(d, point.X, panelTop+plot-y.at(point.Y)-6, point.Label)
			}
		}
	}
	d.put("</svg>")
	_, err := d.WriteTo(w)
	return err
}

func (p *Panel) drawFlag(d *drawing, f Flag, plot float64) {
	at := p.share(f.At)
	d.put(`<g class="flag c-%s">`, f.Class)
	size := 3
	if !f.Minor {
		size = 5
		d.put(`<line x1="%s" x2="%s" y1="4" y2="%s"/>`, at, at, px(panelTop+plot))
	}
	d.put(`<circle cx="%s" cy="7" r="%d"><title>%s</title></circle>`, at, size, escaped(f.Tip))
	if f.Label != "" {
		p.label(d, f.At, 24, f.Label)
	}
	d.put("</g>")
}

// share is a place on the axis in percent of the panel's width.
func (p *Panel) share(at float64) string { return percent((at - p.From) / (p.To - p.From)) }

// label writes a text beside a place, on the side that has more room.
func (p *Panel) label(d *drawing, at, y float64, text string) {
	anchor, shift := "start", 6
	if at-p.From > 0.5*(p.To-p.From) {
		anchor, shift = "end", -6
	}
	d.put(`<text class="label" x="%s" dx="%d" y="%s" text-anchor="%s">%s</text>`, p.share(at), shift, px(y), anchor,
		escaped(text))
}

// wide is a place on the axis with all its digits.
func wide(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (p *Panel) x(at float64) string { return rounded((at-p.From)/(p.To-p.From)*panelWidth, 10) }

// height is how high a column stands.
func (c *Column) height() float64 {
	sum := 0.0
	for _, v := range c.Values {
		if isNumber(v) {
			sum += max(v, 0)
		}
	}
	return sum
}

// tops calls see with the top of each column, and with each point of a line.
func (p *Panel) tops(see func(x, y float64)) {
	for i := range p.Columns {
		see((p.Columns[i].From+p.Columns[i].To)/2, p.Columns[i].height())
	}
	for _, line := range p.Lines {
		for _, point := range line.Points {
			see(point.X, point.Y)
		}
	}
}

const (
	fewestForOutlier = 10  // values, below which each of them says something
	outlierShare     = 40  // one of so many values may be one
	outlierTimes     = 2.5 // the highest is so many times as high as the next that is none
)

// outliers is where the axis is cut off, so that a few values, far above all others, do not flatten these.
func (p *Panel) outliers() (cut float64, found bool) {
	var all []float64
	p.tops(func(_, y float64) {
		if isNumber(y) && y <= largest {
			all = append(all, y)
		}
	})
	if len(all) < fewestForOutlier {
		return 0, false
	}
	slices.Sort(all)
	top := all[len(all)-1-max(1, len(all)/outlierShare)]
	return 1.2 * top, top > 0 && all[len(all)-1] > outlierTimes*top
}

// drawBeyond says how high what is cut off is, and that it is.
func (p *Panel) drawBeyond(d *drawing, y *scale) {
	said := math.Inf(-1)
	p.tops(func(x, v float64) {
		if isNumber(v) && v > y.high && x-said > (p.To-p.From)/8 { // texts do not lie over each other
			d.put(`<text class="beyond" text-anchor="middle" x="%s" y="%d">&#9650; %s</text>`, p.share(x), panelTop+10,
				shortNumber(v, v))
			said = x
		}
	})
	if !math.IsInf(said, -1) {
		d.put(`<text class="tick" text-anchor="end" x="100%%" y="%d">&#9650; beyond the axis</text>`, panelTop-4)
	}
}

// values is the least and the largest value that the panel shows, 0 among them.
func (p *Panel) values() (low, high float64) {
	add := func(v float64) {
		if isNumber(v) && math.Abs(v) <= largest {
			low, high = min(low, v), max(high, v)
		}
	}
	p.tops(func(_, y float64) { add(y) })
	for _, line := range p.Lines {
		for _, point := range line.Points {
			if point.interval() {
				add(point.Low)
				add(point.High)
			}
		}
	}
	for _, g := range p.Guides {
		add(g.At)
	}
	return low, high
}

func (p *Panel) drawGrid(d *drawing, y *scale, plot float64) {
	for _, t := range y.ticks {
		at := panelTop + plot - y.at(t)
		class := "grid"
		if t == 0 {
			class = "axis"
		}
		d.put(`<line class="%s" x1="0" x2="100%%" y1="%s" y2="%s"/>`, class, px(at), px(at))
	}
}

func (p *Panel) drawTexts(d *drawing, y *scale, plot float64) {
	for _, t := range y.ticks {
		d.put(`<text class="tick" text-anchor="end" x="-6" y="%s">%s</text>`, px(panelTop+plot-y.at(t)+4),
			shortNumber(t, max(y.high, -y.low)))
	}
	for _, t := range p.Ticks {
		class := "tick x"
		if t.Minor {
			class += " minor"
		}
		if t.At < p.From || t.At > p.To {
			continue
		}
		d.put(`<line class="axis" x1="%s" x2="%s" y1="%s" y2="%s"/>`, p.share(t.At), p.share(t.At), px(panelTop+plot),
			px(panelTop+plot+4))
		time := ""
		if t.Time != "" {
			time = ` data-time="` + escaped(t.Time) + `"`
		}
		d.put(`<text class="%s" text-anchor="middle" x="%s" y="%d"%s>%s</text>`, class, p.share(t.At), p.Height-4, time,
			escaped(t.Text))
	}
}

// drawLayers draws each layer's part of all columns as one path.
func (p *Panel) drawLayers(d *drawing, y *scale) {
	feet := make([]float64, len(p.Columns))
	for i, layer := range p.Layers {
		var path []byte
		for k, c := range p.Columns {
			if i >= len(c.Values) || !isNumber(c.Values[i]) || c.Values[i] <= 0 || c.To < p.From || c.From > p.To {
				continue
			}
			top := feet[k] + c.Values[i]
			path = append(path, 'M')
			path = append(path, p.x(max(c.From, p.From))+" "+px(y.length-y.at(feet[k]))+"V"+px(y.length-y.at(top))+"H"+
				p.x(min(c.To, p.To))+"V"+px(y.length-y.at(feet[k]))+"Z"...)
			feet[k] = top
		}
		if len(path) > 0 {
			d.put(`<path class="fill c-%s" d="%s"/>`, layer.Class, path)
		}
	}
}

func (p *Panel) drawPanelLine(d *drawing, y *scale, line PanelLine) {
	var path, band []byte
	joined := false
	for i, point := range line.Points {
		if !isNumber(point.Y) {
			joined = false
			continue
		}
		x, at := p.x(point.X), px(y.length-y.at(point.Y))
		switch {
		case !joined:
			path = append(path, "M"+x+" "+at...)
		case line.Stairs:
			path = append(path, "H"+x+"V"+at...)
		default:
			path = append(path, "L"+x+" "+at...)
		}
		joined = !line.Dots
		alone := line.Dots || (i == 0 || !isNumber(line.Points[i-1].Y)) &&
			(i == len(line.Points)-1 || !isNumber(line.Points[i+1].Y))
		if alone {
			path = append(path, "h0.01"...) // a line of no length has round ends: a dot
		}
		if point.interval() {
			band = append(band, "M"+x+" "+px(y.length-y.at(point.Low))+"V"+px(y.length-y.at(point.High))...)
		}
	}
	if len(band) > 0 {
		d.put(`<path class="band c-%s" d="%s"/>`, line.Class, band)
	}
	if len(path) > 0 {
		class := "stroke"
		if line.Dots {
			class += " dots"
		}
		d.put(`<path class="%s c-%s" d="%s"/>`, class, line.Class, path)
	}
}
