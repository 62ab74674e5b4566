// Package figure writes charts as SVG files of their own, for the reports of trials: panels of the operator's page,
// with a heading and a legend around them.
package figure

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/kit/chart"
)

// Figure is a panel with what stands around it, for a file of its own.
type Figure struct {
	Title, Subtitle string
	XLabel, YLabel  string // "step time (s)"
	// Panel's lines and layers have colours in their order; those with the class soft are grey, behind the others.
	chart.Panel
}

// The size of a figure, in pixels.
const (
	figureWidth = 760
	figureLeft  = 64 // for the values of the axis
	figureRight = 24
	headHeight  = 96 // title, subtitle, legend and the axis' name
	footHeight  = 30
	plotHeight  = 300
	legendChars = 6.6 // pixels for each letter of a legend
	legendRow   = 16
)

// colours are those of the series on a light and on a dark page.
var colours = [][2]string{{"#1763c6", "#6cb0ff"}, {"#d9480f", "#ff9f5a"}, {"#08805f", "#4fd1a5"},
	{"#8f2fb0", "#d58cf0"}, {"#96700a", "#e3c04b"}, {"#c2255c", "#ff8fb3"}, {"#0b7285", "#5fd0dd"}, {"#5c3d2e", "#c9a48f"}}

// Write writes figures below each other as one SVG file, which follows the reader's choice of a light or a dark
// page.
func Write(w io.Writer, title string, figures ...Figure) error {
	const each = headHeight + plotHeight + footHeight
	d := &drawing{}
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" class="chart">`,
		figureWidth, each*len(figures), figureWidth, each*len(figures))
	d.put("<title>%s</title><style>%s</style>", html.EscapeString(title), styles())
	d.put(`<rect class="paper" width="100%%" height="100%%"/>`)
	for i, f := range figures {
		d.put(`<g transform="translate(0 %d)">`, i*each)
		if err := f.draw(d); err != nil {
			return err
		}
		d.put("</g>")
	}
	d.put("</svg>")
	_, err := d.WriteTo(w)
	return err
}

func (f Figure) draw(d *drawing) error {
	d.put(`<text class="title" x="14" y="24">%s</text>`, html.EscapeString(f.Title))
	d.put(`<text class="tick" x="14" y="44">%s</text>`, html.EscapeString(f.Subtitle))
	at, row := 14.0, 54
	entry := func(class, name string) {
		if name == "" {
			return
		}
		width := 34 + legendChars*float64(len([]rune(name)))
		if at+width > figureWidth {
			at, row = 14, row+legendRow
		}
		d.put(`<rect class="fill c-%s" x="%.0f" y="%d" width="12" height="12"/>`, class, at, row)
		d.put(`<text x="%.0f" y="%d">%s</text>`, at+17, row+10, html.EscapeString(name))
		at += width
	}
	number := 0
	coloured := func(class string) string {
		if class == "" {
			class = fmt.Sprint(number % len(colours))
			number++
		}
		return class
	}
	for i := range f.Layers {
		f.Layers[i].Class = coloured(f.Layers[i].Class)
		entry(f.Layers[i].Class, f.Layers[i].Name)
	}
	for i := range f.Lines {
		f.Lines[i].Class = coloured(f.Lines[i].Class)
		entry(f.Lines[i].Class, f.Lines[i].Name)
	}
	d.put(`<text class="tick" x="14" y="95">%s</text>`, html.EscapeString(f.YLabel))
	d.put(`<text class="tick" text-anchor="end" x="%d" y="%d">%s</text>`, figureWidth-figureRight,
		headHeight+plotHeight+16, html.EscapeString(f.XLabel))
	d.put(`<svg x="%d" y="%d" width="%d" height="%d" overflow="visible">`, figureLeft, headHeight,
		figureWidth-figureLeft-figureRight, plotHeight)
	f.Height = plotHeight
	if err := f.WriteSVG(d); err != nil {
		return err
	}
	d.put("</svg>")
	return nil
}

// styles is the style sheet of a file; a page has its own for the same classes.
func styles() string {
	var light, dark strings.Builder
	for i, c := range colours {
		fmt.Fprintf(&light, ".c-%d{color:%s}", i, c[0])
		fmt.Fprintf(&dark, ".c-%d{color:%s}", i, c[1])
	}
	return `.chart{color:#57606a}.chart text{font:12px system-ui,sans-serif;fill:#1b1f24}.chart .title{font-size:16px;` +
		`font-weight:600}.chart text.tick{font-size:11px;fill:#57606a}.paper{fill:#fff}.panel{overflow:visible}` +
		`.grid{stroke:#e3e6ea}.axis{stroke:#8b949e}.guide{stroke:#57606a;stroke-dasharray:4 4}.fill{fill:currentColor}` +
		`.stroke{fill:none;stroke:currentColor;stroke-width:2px;stroke-linecap:round;vector-effect:non-scaling-stroke}` +
		`.dots{stroke-width:7px}.band{fill:none;stroke:currentColor;vector-effect:non-scaling-stroke}` +
		`.flag line{stroke:currentColor;stroke-dasharray:4 4}.flag circle{fill:currentColor}` + light.String() +
		`@media (prefers-color-scheme:dark){.chart{color:#a3adba}.chart text{fill:#e6e9ee}.chart text.tick{fill:#a3adba}` +
		`.paper{fill:#14171c}.grid{stroke:#2c323a}.axis{stroke:#6b7480}.guide{stroke:#a3adba}` + dark.String() + `}`
}

// drawing is a file while it is written.
type drawing struct{ bytes.Buffer }

func (d *drawing) put(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }
