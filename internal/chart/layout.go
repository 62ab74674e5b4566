package chart

import (
	"math"
	"slices"
)

// plot is the place of the marks, and how values become pixels. Pixels count from its upper left corner.
type plot struct {
	Chart
	left, top, width, height float64
	x, y                     scale
	styles                   []seriesStyle
	spans                    [][]span // of each series' points, on the Y axis
	slot                     float64  // what one place on the X axis is wide, in units of X; of bars
	turned                   bool     // the X axis' texts stand aslant
	taken                    []box    // where text stands
}

// span is what a point takes on the Y axis: from its foot to its value.
type span struct{ from, to float64 }

const (
	margin      = 14
	rowHeight   = 18
	titleHeight = 21
	tickGap     = 6
	slope       = 0.5 // of texts that stand aslant: sine and cosine of 30 degrees
	cosine      = 0.87
	longestTick = 24 // letters
)

// newPlot lays a chart out below what stands above the marks, which ends at top.
func newPlot(c Chart, top float64) *plot {
	p := &plot{Chart: c, styles: c.seriesStyles(), top: top}
	p.spans = c.stack()
	p.slot = c.narrowestGap()
	w, h := c.size()
	lowX, highX := p.rangeX()
	lowY, highY := p.rangeY()
	bottom := float64(margin + rowHeight)
	if titled(c.X, "") != "" {
		bottom += rowHeight
	}
	for range 2 { // the height decides on the ticks, their texts on the width, and those of X on the height
		p.height = max(20, float64(h)-top-bottom)
		p.y = newScale(c.Y, lowY, highY, p.height, max(2, int(p.height/48)))
		widest := 24.0
		for _, t := range p.y.text {
			widest = max(widest, textWidth(t, tickSize))
		}
		p.left = margin + widest + tickGap
		p.width = max(20, float64(w)-p.left-2*margin)
		slanted := p.layX(lowX, highX)
		if !p.turned {
			break
		}
		bottom = margin + slanted
		if titled(c.X, "") != "" {
			bottom += rowHeight
		}
	}
	return p
}

// layX makes the X axis' scale, and returns how high its texts stand aslant.
func (p *plot) layX(low, high float64) float64 {
	if len(p.X.Categories) > 0 {
		return p.layCategories()
	}
	for count := max(2, int(p.width/64)); ; count-- {
		p.x = newScale(p.X, low, high, p.width, count)
		if count <= 2 || p.x.textsFit() {
			break
		}
	}
	if p.hasBars() && p.X.Max <= p.X.Min && !p.X.Log { // no bar is cut off, and no empty place beside them
		p.x.low, p.x.high = low, high
		p.x.ticks = within(p.x.ticks, low, high)
		p.x.text = tickTexts(p.x.ticks, false)
	}
	return 0
}

// textsFit reports whether the texts of the ticks stand beside each other.
func (s *scale) textsFit() bool {
	end := math.Inf(-1)
	for i, t := range s.ticks {
		half := textWidth(s.text[i], tickSize) / 2
		if s.at(t)-half < end {
			return false
		}
		end = s.at(t) + half + tickGap
	}
	return true
}

// layCategories gives each category a place, aslant where its name is too wide for it, and leaves names out where
// there is not even room for a line of text.
func (p *plot) layCategories() (height float64) {
	n := len(p.X.Categories)
	p.x = scale{low: -0.5, high: float64(n) - 0.5, length: p.width}
	place := p.width / float64(n)
	every := max(1, int(math.Ceil((tickSize+3)/place)))
	p.turned = false
	for i, name := range p.X.Categories {
		if i%every != 0 {
			continue
		}
		name = clean(name)
		if letters := []rune(name); len(letters) > longestTick {
			name = string(letters[:longestTick-1]) + "…"
		}
		p.x.ticks, p.x.text = append(p.x.ticks, float64(i)), append(p.x.text, name)
		if textWidth(name, tickSize) > place*float64(every)-4 {
			p.turned = true
		}
	}
	for i, t := range p.x.ticks {
		if p.turned { // aslant, a text reaches to the left
			p.x.text[i] = fitting(p.x.text[i], tickSize, (p.left+p.x.at(t)-4)/cosine)
		}
		height = max(height, textWidth(p.x.text[i], tickSize)*slope+tickSize)
	}
	return height
}

func (p *plot) hasBars() bool {
	return slices.ContainsFunc(p.Series, func(s Series) bool { return s.Mark.isBar() })
}

// rangeX is the least and the largest X, with room for bars.
func (p *plot) rangeX() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range p.Series {
		half := 0.0
		if s.Mark.isBar() {
			half = p.slot / 2
		}
		for _, point := range s.Points {
			low, high = min(low, point.X-half), max(high, point.X+half)
		}
	}
	for _, g := range p.Guides {
		if g.Vertical && p.shows(g) {
			low, high = min(low, g.At), max(high, g.At)
		}
	}
	return orUnit(low, high, p.X.Log)
}

// rangeY is the least and the largest value, feet of bars and ends of intervals included.
func (p *plot) rangeY() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	add := func(v float64) {
		if isNumber(v) && !(p.Y.Log && v <= 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	for i, s := range p.Series {
		for k, point := range s.Points {
			add(p.spans[i][k].to)
			if s.Mark.grounded() {
				add(p.spans[i][k].from)
			}
			if point.interval() {
				add(point.Low)
				add(point.High)
			}
		}
	}
	for _, g := range p.Guides {
		if !g.Vertical && p.shows(g) {
			add(g.At)
		}
	}
	return orUnit(low, high, p.Y.Log)
}

// orUnit is a range, or one for a chart without values.
func orUnit(low, high float64, log bool) (float64, float64) {
	if low > high {
		if log {
			return 1, 10
		}
		return 0, 1
	}
	return low, high
}

// stack is the span of every point: from 0, or from where the earlier series of the same stack end.
func (c Chart) stack() [][]span {
	type place struct {
		x        float64
		negative bool
	}
	bars, areas := map[place]float64{}, map[place]float64{}
	spans := make([][]span, len(c.Series))
	for i, s := range c.Series {
		spans[i] = make([]span, len(s.Points))
		for k, p := range s.Points {
			at := place{p.X, p.Y < 0}
			tops := bars
			if s.Mark == StackedAreas {
				at.negative, tops = false, areas
			}
			switch {
			case s.Mark != StackedBars && s.Mark != StackedAreas:
				spans[i][k] = span{0, p.Y}
			case isNumber(p.Y):
				spans[i][k] = span{tops[at], tops[at] + p.Y}
				tops[at] += p.Y
			default:
				spans[i][k] = span{tops[at], tops[at]}
			}
		}
	}
	return spans
}

// narrowestGap is the least distance of two bars' places on the X axis; 1 where there is none.
func (c Chart) narrowestGap() float64 {
	var xs []float64
	for _, s := range c.Series {
		if s.Mark.isBar() {
			for _, p := range s.Points {
				xs = append(xs, p.X)
			}
		}
	}
	slices.Sort(xs)
	gap := math.Inf(1)
	for i := 1; i < len(xs); i++ {
		if d := xs[i] - xs[i-1]; d > 0 {
			gap = min(gap, d)
		}
	}
	if !isNumber(gap) || len(c.X.Categories) > 0 {
		return 1
	}
	return gap
}

// box is a rectangle that text must not stand on.
type box struct{ left, top, right, bottom float64 }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// free reports whether a box is inside the plot and meets no other.
func (p *plot) free(b box) bool {
	if b.left < 0 || b.top < 0 || b.right > p.width+margin || b.bottom > p.height {
		return false
	}
	return !slices.ContainsFunc(p.taken, b.meets)
}
