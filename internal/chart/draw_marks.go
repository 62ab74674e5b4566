package chart

import (
	"fmt"
	"math"
	"strings"
)

// mostDots is how many points a line may have that still shows each of them.
const mostDots = 40

// widestBar is how wide a bar may be, in pixels.
const widestBar = 64

// dotted reports whether a line shows its points.
func (s Series) dotted() bool {
	return (s.Mark == Line || s.Mark == Stairs) && len(s.Points) <= mostDots && !s.Context
}

func (p *plot) drawSeries(d *drawing, i int) {
	s := p.Series[i]
	switch s.Mark {
	case Line, Stairs:
		p.drawLine(d, s, p.styles[i])
	case Dots:
		p.drawDots(d, s, p.styles[i], 4.2)
	case Bars, StackedBars:
		p.drawBars(d, i)
	case StackedAreas:
		p.drawArea(d, i)
	}
}

// drawLine joins the points, with a gap at each that is not a number.
func (p *plot) drawLine(d *drawing, s Series, style seriesStyle) {
	var path strings.Builder
	var last Point
	joined := false
	for _, point := range p.thinned(s.Points) {
		if !isNumber(point.Y) {
			joined = false
			continue
		}
		x, y := px(p.x.at(point.X)), px(p.height-p.y.at(point.Y))
		switch {
		case !joined:
			fmt.Fprintf(&path, "M%s %s", x, y)
		case s.Mark == Stairs:
			fmt.Fprintf(&path, "H%sV%s", x, y)
		default:
			fmt.Fprintf(&path, "L%s %s", x, y)
		}
		joined, last = true, point
	}
	if joined && s.Mark == Stairs && len(s.Points) > 1 { // the last value lasts as long as the one before it
		before := s.Points[len(s.Points)-2]
		end := min(p.x.high, last.X+(last.X-before.X))
		fmt.Fprintf(&path, "H%s", px(p.x.at(max(end, last.X))))
	}
	if path.Len() > 0 {
		d.put(`<path class="line %s" d="%s"/>`, style.stroke(), path.String())
	}
	if s.dotted() {
		p.drawDots(d, s, style, 3.4)
	}
}

// thinned is a line's points without those that no pixel shows: of each column of pixels the first, the last, the
// lowest and the highest stay.
func (p *plot) thinned(points []Point) []Point {
	if float64(len(points)) <= 4*p.width {
		return points
	}
	var out []Point
	for from := 0; from < len(points); {
		column := math.Floor(p.x.at(points[from].X))
		low, high, to := from, from, from
		for to < len(points) && math.Floor(p.x.at(points[to].X)) == column && isNumber(points[to].Y) {
			if points[to].Y < points[low].Y {
				low = to
			}
			if points[to].Y > points[high].Y {
				high = to
			}
			to++
		}
		if to == from { // a gap
			out = append(out, points[from])
			from++
			continue
		}
		last := -1
		for _, i := range []int{from, min(low, high), max(low, high), to - 1} {
			if i != last {
				out = append(out, points[i])
			}
			last = i
		}
		from = to
	}
	return out
}

func (p *plot) drawDots(d *drawing, s Series, style seriesStyle, size float64) {
	for _, point := range s.Points {
		if !isNumber(point.Y) {
			continue
		}
		x, y := p.x.at(point.X), p.height-p.y.at(point.Y)
		p.drawInterval(d, style, point, x)
		tip := ""
		if len(s.Points) <= 10*mostDots {
			tip = p.tip(s, point)
		}
		d.shape(style, x, y, size, tip)
	}
}

// drawInterval puts the interval around a value.
func (p *plot) drawInterval(d *drawing, style seriesStyle, point Point, x float64) {
	if !point.interval() || p.y.log && point.Low <= 0 {
		return
	}
	low, high := p.height-p.y.at(point.Low), p.height-p.y.at(point.High)
	if low-high < 2 { // no wider than the dot's middle
		return
	}
	d.put(`<path class="whisker %s" d="M%s %sH%sM%s %sV%sM%s %sH%s"/>`, style.stroke(), px(x-4), px(low), px(x+4), px(x),
		px(low), px(high), px(x-4), px(high), px(x+4))
}

// drawBars puts a series of bars beside, or on top of, the others of its kind.
func (p *plot) drawBars(d *drawing, i int) {
	s, style := p.Series[i], p.styles[i]
	count, number := 0, 0 // bars beside each other, and which of them this is
	for k, other := range p.Series {
		if other.Mark == Bars {
			if k == i {
				number = count
			}
			count++
		}
	}
	if s.Mark == StackedBars {
		count, number = 1, 0
	}
	wide := min(p.slot*0.8, widestBar*float64(count)/p.width*(p.x.high-p.x.low))
	for k, point := range s.Points {
		if !isNumber(point.Y) {
			continue
		}
		left := p.x.at(point.X - wide/2 + wide*float64(number)/float64(count))
		right := p.x.at(point.X - wide/2 + wide*float64(number+1)/float64(count))
		if count > 1 && right-left > 4 {
			right-- // a gap between neighbours
		}
		from, to := p.spans[i][k].from, p.spans[i][k].to
		if p.y.log {
			from = p.y.low
		}
		a, b := p.height-p.y.at(from), p.height-p.y.at(to)
		d.put(`<rect class="bar %s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`, style.fill(), px(left),
			px(min(a, b)), px(right-left), px(math.Abs(a-b)), escaped(p.tip(s, point)))
		p.drawInterval(d, seriesStyle{context: true}, point, (left+right)/2)
	}
}

// drawArea puts a series of areas on top of the earlier ones.
func (p *plot) drawArea(d *drawing, i int) {
	spans, s := p.spans[i], p.Series[i]
	if len(s.Points) == 0 {
		return
	}
	var path strings.Builder
	for k, point := range s.Points {
		letter := "L"
		if k == 0 {
			letter = "M"
		}
		fmt.Fprintf(&path, "%s%s %s", letter, px(p.x.at(point.X)), px(p.height-p.y.at(spans[k].to)))
	}
	for k := len(spans) - 1; k >= 0; k-- {
		fmt.Fprintf(&path, "L%s %s", px(p.x.at(s.Points[k].X)), px(p.height-p.y.at(spans[k].from)))
	}
	d.put(`<path class="area %s" d="%sZ"><title>%s</title></path>`, p.styles[i].fill(), path.String(), escaped(s.Name))
}

// occupy takes the places of dots and lines, so that no text stands on them.
func (p *plot) occupy() {
	const near = 8 // pixels from one place on a line to the next
	for _, s := range p.Series {
		if s.Mark != Line && s.Mark != Stairs && s.Mark != Dots {
			continue
		}
		lastX, lastY := math.NaN(), 0.0
		for k, point := range p.thinned(s.Points) {
			if !isNumber(point.Y) {
				lastX = math.NaN()
				continue
			}
			x, y := p.x.at(point.X), p.height-p.y.at(point.Y)
			r := 2.0
			if s.Mark == Dots || s.dotted() {
				r = 5
			}
			p.taken = append(p.taken, box{x - r, y - r, x + r, y + r})
			if s.Mark == Dots || k == 0 || !isNumber(lastX) {
				lastX, lastY = x, y
				continue
			}
			if s.Mark == Stairs {
				p.taken = append(p.taken, box{lastX, lastY - 1, x, lastY + 1}, box{x - 1, min(y, lastY), x + 1, max(y, lastY)})
			} else {
				parts := math.Ceil(math.Hypot(x-lastX, y-lastY) / near)
				for part := 1.0; part < parts; part++ {
					px, py := lastX+(x-lastX)*part/parts, lastY+(y-lastY)*part/parts
					p.taken = append(p.taken, box{px - 2, py - 2, px + 2, py + 2})
				}
			}
			lastX, lastY = x, y
		}
	}
}

// drawLabels puts the points' labels where they meet neither each other nor a point; one without such a place is left
// to what the point says when it is pointed at.
func (p *plot) drawLabels(d *drawing) {
	for i, s := range p.Series {
		for k, point := range s.Points {
			if point.Label == "" || !isNumber(point.Y) {
				continue
			}
			text := fitting(clean(point.Label), tickSize, p.width*0.6)
			x, y := p.x.at(point.X), p.height-p.y.at(p.spans[i][k].to)
			w := textWidth(text, tickSize)
			for _, b := range []box{
				{x + 7, y - 7, x + 7 + w, y + 7}, {x - w/2, y - 21, x + w/2, y - 7}, {x + 4, y - 20, x + 4 + w, y - 6},
				{x + 4, y + 6, x + 4 + w, y + 20}, {x - 7 - w, y - 7, x - 7, y + 7}, {x - w/2, y + 7, x + w/2, y + 21},
			} {
				if p.free(b) {
					p.taken = append(p.taken, b)
					d.write("tick", "start", b.left, b.bottom-3, text)
					break
				}
			}
		}
	}
}
