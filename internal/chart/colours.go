package chart

import (
	"fmt"
	"strings"
)

// colours are those of the series on a light and on a dark page. They differ in lightness as well as in hue, and shapes
// and dashes differ beside them, so that nobody has to tell red from green.
var colours = []struct{ light, dark string }{
	{"#1763c6", "#6cb0ff"},
	{"#d9480f", "#ff9f5a"},
	{"#08805f", "#4fd1a5"},
	{"#8f2fb0", "#d58cf0"},
	{"#96700a", "#e3c04b"},
	{"#c2255c", "#ff8fb3"},
	{"#0b7285", "#5fd0dd"},
	{"#5c3d2e", "#c9a48f"},
}

// dashes are the patterns of lines, one for each round of the colours.
var dashes = []string{"", "6 4", "2 3", "9 3 2 3"}

// styles is the style sheet of a drawing. Its rules hold below .chart alone: several drawings may stand in one page.
func styles() string {
	var b strings.Builder
	b.WriteString(`.chart text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;` +
		`font-size:12px;fill:#1b1f24}` +
		`.chart .title{font-size:16px;font-weight:600}` +
		`.chart .muted{fill:#57606a}.chart .tick{font-size:11px;fill:#57606a}` +
		`.chart .page{fill:#fff}.chart .grid{stroke:#e3e6ea;fill:none}.chart .axis{stroke:#8b949e;fill:none}` +
		`.chart .guide{stroke:#57606a;stroke-dasharray:4 4;fill:none}` +
		`.chart .line{fill:none;stroke-width:2;stroke-linejoin:round}.chart .whisker{fill:none;stroke-width:1.2}` +
		`.chart .area{stroke:none;fill-opacity:.8}.chart .bar{stroke:none;fill-opacity:.88}` +
		`.chart .cs{stroke:#8b949e}.chart .cf{fill:#8b949e}`)
	for i, c := range colours {
		fmt.Fprintf(&b, ".chart .s%d{stroke:%s}.chart .f%d{fill:%s}", i, c.light, i, c.light)
	}
	for i, dash := range dashes[1:] {
		fmt.Fprintf(&b, ".chart .d%d{stroke-dasharray:%s}", i+1, dash)
	}
	b.WriteString(`@media (prefers-color-scheme:dark){.chart text{fill:#e6e9ee}` +
		`.chart .muted,.chart .tick{fill:#a3adba}` +
		`.chart .page{fill:#14171c}.chart .grid{stroke:#2c323a}.chart .axis{stroke:#6b7480}` +
		`.chart .guide{stroke:#a3adba}`)
	for i, c := range colours {
		fmt.Fprintf(&b, ".chart .s%d{stroke:%s}.chart .f%d{fill:%s}", i, c.dark, i, c.dark)
	}
	b.WriteString("}")
	return b.String()
}

// stroke and fill are the classes of a series' lines and surfaces. Series of context have no colour and take none from
// the others.
func (s seriesStyle) stroke() string {
	if s.context {
		return "cs"
	}
	class := fmt.Sprintf("s%d", s.number%len(colours))
	if round := s.number / len(colours) % len(dashes); round > 0 {
		class += fmt.Sprintf(" d%d", round)
	}
	return class
}

func (s seriesStyle) fill() string {
	if s.context {
		return "cf"
	}
	return fmt.Sprintf("f%d", s.number%len(colours))
}

// seriesStyle is how a series is told from the others.
type seriesStyle struct {
	number  int // among those that have a colour
	context bool
}

func (c Chart) seriesStyles() []seriesStyle {
	styles := make([]seriesStyle, len(c.Series))
	coloured := 0
	for i, s := range c.Series {
		if styles[i].context = s.Context; !s.Context {
			styles[i].number = coloured
			coloured++
		}
	}
	return styles
}

// shape draws the dot of a series around a point: a circle, a square, a triangle, or a square on its corner.
func (d *drawing) shape(s seriesStyle, x, y, r float64, tip string) {
	var path string
	switch s.number % 4 {
	case 0:
		path = fmt.Sprintf("M%s %sa%s %s 0 1 0 %s 0a%s %s 0 1 0 %s 0Z", px(x-r), px(y), px(r), px(r), px(2*r), px(r), px(r),
			px(-2*r))
	case 1:
		r *= 0.88
		path = fmt.Sprintf("M%s %sh%sv%sh%sZ", px(x-r), px(y-r), px(2*r), px(2*r), px(-2*r))
	case 2:
		path = fmt.Sprintf("M%s %sL%s %sL%s %sZ", px(x), px(y-1.15*r), px(x+1.1*r), px(y+0.85*r), px(x-1.1*r), px(y+0.85*r))
	default:
		r *= 1.2
		path = fmt.Sprintf("M%s %sL%s %sL%s %sL%s %sZ", px(x), px(y-r), px(x+r), px(y), px(x), px(y+r), px(x-r), px(y))
	}
	if tip == "" {
		d.put(`<path class="%s" d="%s"/>`, s.fill(), path)
		return
	}
	d.put(`<path class="%s" d="%s"><title>%s</title></path>`, s.fill(), path, escaped(tip))
}
