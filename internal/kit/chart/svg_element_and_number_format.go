package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
)

// drawing is an SVG element while it is written.
type drawing struct{ bytes.Buffer }

func (d *drawing) put(format string, args ...any) {
	fmt.Fprintf(&d.Buffer, format, args...)
	d.WriteByte('\n')
}

// px is a length in pixels, to a hundredth.
func px(v float64) string { return rounded(v, 100) }

func percent(share float64) string { return rounded(share*100, 1000) + "%" }

// rounded is a number to one part of so many.
func rounded(v, parts float64) string {
	v = math.Round(v*parts) / parts
	if v == 0 {
		v = 0 // and not -0
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// escaped is a text in which nothing is markup, and nothing is left that no XML file may hold.
func escaped(text string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.String()
}

func isNumber(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
