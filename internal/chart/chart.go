// Package chart draws series of numbers over two axes as SVG: lines, stairs, dots, bars and stacked areas, with ticks
// at round numbers, units, a legend, and a text for those who do not see it. A drawing needs no script, no font and no
// other file, it follows the reader's choice of a light or a dark page, and the same chart gives the same bytes.
//
// Start reading at Chart.
package chart

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Chart is series over two axes. Its texts may come from anywhere: they are escaped, and shortened where they are long.
type Chart struct {
	Title    string // what it shows
	Subtitle string // of what, and under which conditions
	// Description is the text alternative: what a reader should see. Empty: the range of each series.
	Description string
	X, Y        Axis
	Series      []Series // the first is drawn first, and stands first in the legend
	Guides      []Guide
	// Width and Height are in pixels; 0: 760 and 420.
	Width, Height int
}

// Axis is one of the two directions.
type Axis struct {
	Label string // "step time"
	Unit  string // "s"; empty for a count
	// Categories name the places 0, 1, 2, ... of an X axis, for bars of things that are no numbers.
	Categories []string
	Log        bool // ticks at powers of ten; every value must be above 0
	FromZero   bool // bars and areas begin at 0 in any case
	Whole      bool // of things that come in whole numbers: no tick between them
	// Min and Max are the range that is shown, if Max is above Min; else all values are.
	Min, Max float64
}

// Series is points that belong together.
type Series struct {
	Name   string // in the legend; empty: not there
	Mark   Mark
	Points []Point
	// Context draws the series in grey behind the others: what they are compared with.
	Context bool
}

// Point is one value. A Y that is not a number is a gap.
type Point struct {
	X, Y float64
	// Low and High are the ends of an interval around Y, which is drawn if High is above Low.
	Low, High float64
	// Label stands beside the point where there is room for it.
	Label string
}

// interval reports whether the point has one.
func (p Point) interval() bool {
	return p.High > p.Low && math.Abs(p.High) <= largest && math.Abs(p.Low) <= largest
}

// Mark is how a series is drawn.
type Mark uint8

// The marks.
const (
	Line         Mark = iota // points joined in the order in which they are given
	Stairs                   // each value lasts until the next point
	Dots                     // each point alone
	Bars                     // from 0 to the value; of several such series beside each other
	StackedBars              // on top of the bars of earlier series at the same X
	StackedAreas             // on top of the areas of earlier series; all have points at the same X
)

// Guide is a straight line across the chart at one value, such as a target.
type Guide struct {
	At       float64
	Vertical bool // at a value of X; else of Y
	Label    string
}

// The size of a chart that says nothing of it, and the least one.
const (
	defaultWidth, defaultHeight = 760, 420
	leastWidth, leastHeight     = 240, 180
)

// largest is the largest magnitude that an axis shows: beyond it, neighbouring numbers are the same in print.
const largest = 1e15

// Validate reports what keeps a chart from being drawn.
func (c Chart) Validate() error {
	var faults []error
	if c.Width != 0 && c.Width < leastWidth || c.Height != 0 && c.Height < leastHeight {
		faults = append(faults, fmt.Errorf("%d x %d pixels: a chart takes at least %d x %d", c.Width, c.Height,
			leastWidth, leastHeight))
	}
	var stacked []Point
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !isNumber(p.X) || math.Abs(p.X) > largest || math.Abs(p.Y) > largest && isNumber(p.Y) {
				faults = append(faults, fmt.Errorf("series %q: the point (%v, %v) cannot be shown", s.Name, p.X, p.Y))
				break
			}
			if c.X.Log && p.X <= 0 || c.Y.Log && p.Y <= 0 {
				faults = append(faults, fmt.Errorf("series %q: the point (%v, %v) has no place on a logarithmic axis",
					s.Name, p.X, p.Y))
				break
			}
		}
		if s.Mark.isBar() && c.X.Log {
			faults = append(faults, fmt.Errorf("series %q: bars have no width on a logarithmic X axis", s.Name))
		}
		if (s.Mark == StackedBars || s.Mark == StackedAreas) && c.Y.Log {
			faults = append(faults, fmt.Errorf("series %q: a logarithmic axis has no 0 to stack on", s.Name))
		}
		if s.Mark > StackedAreas {
			faults = append(faults, fmt.Errorf("series %q: there is no mark %d", s.Name, s.Mark))
		}
		if s.Mark == StackedAreas {
			sameX := func(a, b Point) bool { return a.X == b.X }
			if stacked != nil && !slices.EqualFunc(stacked, s.Points, sameX) {
				faults = append(faults, fmt.Errorf("series %q: areas that are stacked need points at the same X", s.Name))
			}
			stacked = s.Points
		}
	}
	return errors.Join(faults...)
}

func isNumber(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (c Chart) size() (width, height int) {
	width, height = c.Width, c.Height
	if width == 0 {
		width = defaultWidth
	}
	if height == 0 {
		height = defaultHeight
	}
	return width, height
}

// grounded reports whether a mark stands on zero.
func (m Mark) grounded() bool { return m == Bars || m == StackedBars || m == StackedAreas }

// isBar reports whether a mark has a width on the X axis.
func (m Mark) isBar() bool { return m == Bars || m == StackedBars }
