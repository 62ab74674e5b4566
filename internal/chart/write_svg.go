package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteSVG writes the chart as an SVG file, or as an element to stand in a page.
func (c Chart) WriteSVG(w io.Writer) error { return WriteSheet(w, "", c) }

// WriteSheet writes several charts below each other as one SVG file.
func WriteSheet(w io.Writer, title string, charts ...Chart) error {
	width, height := 0, 0
	var names, descriptions []string
	for _, c := range charts {
		if err := c.Validate(); err != nil {
			return fmt.Errorf("chart %q: %w", c.Title, err)
		}
		cw, ch := c.size()
		width, height = max(width, cw), height+ch
		names, descriptions = append(names, c.Title), append(descriptions, c.alternative())
	}
	if title == "" {
		title = strings.Join(names, "; ")
	}
	if len(charts) == 0 {
		width, height = defaultWidth, leastHeight
	}
	d := &drawing{}
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" class="chart">`,
		width, height, width, height)
	d.put("<title>%s</title>", escaped(title))
	d.put("<desc>%s</desc>", escaped(strings.Join(descriptions, "\n")))
	d.put("<style>%s</style>", styles())
	d.put(`<rect class="page" width="%d" height="%d"/>`, width, height)
	y := 0
	for _, c := range charts {
		d.put(`<g transform="translate(0 %d)">`, y)
		c.draw(d)
		d.put("</g>")
		_, ch := c.size()
		y += ch
	}
	d.put("</svg>")
	_, err := w.Write(d.Bytes())
	return err
}

// drawing is one SVG file while it is written.
type drawing struct{ bytes.Buffer }

func (d *drawing) put(format string, args ...any) {
	fmt.Fprintf(&d.Buffer, format, args...)
	d.WriteByte('\n')
}

// write puts a text; x and y are the ends of its baseline that the anchor names.
func (d *drawing) write(class, anchor string, x, y float64, text string) {
	d.put(`<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`, class, anchor, px(x), px(y), escaped(text))
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.put(`<path class="%s" d="M%s %sL%s %s"/>`, class, px(x1), px(y1), px(x2), px(y2))
}

// px is a length in pixels, to a hundredth.
func px(v float64) string {
	v = math.Round(v*100) / 100
	if v == 0 {
		v = 0 // and not -0
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func escaped(text string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(clean(text))); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.String()
}

// alternative is the text for those who do not see the chart.
func (c Chart) alternative() string {
	if c.Description != "" {
		return c.Description
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s over %s.", titled(c.Y, "values"), titled(c.X, "values"))
	for _, s := range c.Series {
		low, high, count := math.Inf(1), math.Inf(-1), 0
		for _, p := range s.Points {
			if isNumber(p.Y) {
				low, high, count = min(low, p.Y), max(high, p.Y), count+1
			}
		}
		if count == 0 {
			fmt.Fprintf(&b, " %s: no values.", s.Name)
			continue
		}
		fmt.Fprintf(&b, " %s: %d values from %s to %s.", s.Name, count, shortNumber(low), shortNumber(high))
	}
	return b.String()
}

// titled is what an axis shows, with its unit.
func titled(a Axis, otherwise string) string {
	switch {
	case a.Label == "" && a.Unit == "":
		return otherwise
	case a.Unit == "":
		return a.Label
	case a.Label == "":
		return a.Unit
	}
	return fmt.Sprintf("%s (%s)", a.Label, a.Unit)
}
