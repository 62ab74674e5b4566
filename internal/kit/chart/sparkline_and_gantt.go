package chart

import (
	"io"
	"math"
)

// Spark writes a line of values without axes, to stand within a text; nothing for fewer than two.
func Spark(w io.Writer, description, class string, values []float64) error {
	d := &drawing{}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if isNumber(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if len(values) < 2 || low > high {
		return nil
	}
	if low == high {
		low, high = low-1, high+1
	}
	line := PanelLine{Class: class}
	for i, v := range values {
		line.Points = append(line.Points, Point{X: float64(i), Y: v})
	}
	p := &Panel{From: 0, To: float64(len(values) - 1)}
	d.put(`<svg class="spark" role="img" aria-label="%s" viewBox="0 -2 %d 24" preserveAspectRatio="none">`,
		escaped(description), panelWidth)
	p.drawPanelLine(d, &scale{low: low, high: high, length: 20}, line)
	d.put("</svg>")
	_, err := d.WriteTo(w)
	return err
}

// Segment is a part of a Strip.
type Segment struct {
	From, To float64
	Class    string
	Tip      string
}

// Strip is one row of a Gantt chart: the activities of one thing over time. Rows stand below each other in a table of
// the page, whose cells name them.
type Strip struct {
	Description string
	From, To    float64
	Segments    []Segment
	Marks       []Flag
}

// WriteSVG writes the strip as an element to stand in a page.
func (s Strip) WriteSVG(w io.Writer) error {
	p := Panel{From: s.From, To: s.To}
	if !(p.To > p.From) {
		p.To = p.From + 1
	}
	d := &drawing{}
	d.put(`<svg class="strip" role="img" aria-label="%s">`, escaped(s.Description))
	for _, g := range s.Segments {
		from, to := max(g.From, p.From), min(g.To, p.To)
		if !(to > from) {
			continue
		}
		d.put(`<rect class="fill c-%s" x="%s" width="%s" y="3" height="14"><title>%s</title></rect>`, g.Class,
			p.share(from), percent((to-from)/(p.To-p.From)), escaped(g.Tip))
	}
	for _, m := range s.Marks {
		if m.At >= p.From && m.At <= p.To {
			d.put(`<line class="flag c-%s" x1="%s" x2="%s" y1="0" y2="20"><title>%s</title></line>`, m.Class, p.share(m.At),
				p.share(m.At), escaped(m.Tip))
		}
	}
	d.put("</svg>")
	_, err := d.WriteTo(w)
	return err
}
