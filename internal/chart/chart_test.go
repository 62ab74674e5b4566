package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/chart"
)

var update = flag.Bool("update", false, "rewrite the drawings in testdata")

func series(name string, mark chart.Mark, ys ...float64) chart.Series {
	s := chart.Series{Name: name, Mark: mark}
	for i, y := range ys {
		s.Points = append(s.Points, chart.Point{X: float64(i), Y: y})
	}
	return s
}

// charts are one of each kind.
func charts() map[string]chart.Chart {
	engines := func(name string, ys ...float64) chart.Series {
		s := series(name, chart.Line, ys...)
		for i := range s.Points {
			p := &s.Points[i]
			p.X++
			p.Low, p.High = p.Y*0.96, p.Y*1.04
		}
		return s
	}
	sized := engines("depth 2", 600, 300, 200, 152, 150.4, 150, 150, 150)
	sized.Points[3].Label = "4 engines: 152 s"
	return map[string]chart.Chart{
		"lines": {
			Title: "Step time by engines", Subtitle: "seed-004, 8 groups of 6 games a step",
			X: chart.Axis{Label: "engines", Whole: true}, Y: chart.Axis{Label: "step time", Unit: "s", FromZero: true},
			Series: []chart.Series{engines("depth 1", 690, 360, 251, 204, 180, 172, 168, 166), sized},
			Guides: []chart.Guide{{At: 150, Label: "the trainer's own 150 s"}, {At: 4, Vertical: true, Label: "now"}},
		},
		"stairs_and_areas": {
			Title: "Where the groups are", Description: "Ready groups fall from 16 to 8 in four steps.",
			X: chart.Axis{Label: "step", Whole: true}, Y: chart.Axis{Label: "groups"},
			Series: []chart.Series{
				series("in flight", chart.StackedAreas, 8, 8, 8, 9, 8, 8, 8),
				series("ready", chart.StackedAreas, 16, 12, 8, 7, 8, 8, 8),
				series("target", chart.Stairs, 24, 24, 24, 16, 16, 16, 16),
			},
		},
		"bars": {
			Title:  "Violations by policy",
			X:      chart.Axis{Categories: []string{"static_fifo", "dynamic_no_bins", "multi_bin_dynamic"}},
			Y:      chart.Axis{Label: "requests above the SLO", Unit: "%"},
			Series: []chart.Series{series("1 GPU", chart.Bars, 81.9, 69.6, 61.3), series("4 GPUs", chart.Bars, 3.1, 2.2, 3.3)},
		},
		"stacked_bars_with_long_names": {
			Title: "Phases of a step", X: chart.Axis{Label: "run", Categories: []string{
				"the run as it was recorded", "with four engines", "with a depth of four", "with 12 games a group",
				"with everything",
				"a name that is longer than any axis has room for, and longer still", "g", "h", "i"}},
			Y: chart.Axis{Label: "time", Unit: "s"},
			Series: []chart.Series{
				series("wait", chart.StackedBars, 150, 2, 150, 450, 0, 1, 2, 3, 4),
				series("train", chart.StackedBars, 140, 140, 140, 140, 140, 140, 140, 140, 140),
				series("publish", chart.StackedBars, 10, 10, 10, 10, 10, 10, 10, 10, 10),
			},
		},
		"dots_on_log_axes": {
			Title: "Cost of a simulation",
			X:     chart.Axis{Label: "requests", Log: true}, Y: chart.Axis{Label: "time", Unit: "s", Log: true},
			Series: []chart.Series{
				{Name: "all cells", Mark: chart.Dots, Context: true, Points: []chart.Point{{X: 2e4, Y: 0.7}, {X: 4e5, Y: 11}}},
				{Name: "measured", Mark: chart.Dots, Points: []chart.Point{
					{X: 1e4, Y: 0.11, Label: "10,000"}, {X: 1e5, Y: 1.2, Label: "a hundred thousand"},
					{X: 1e6, Y: 14, Label: "a million"}}},
			},
		},
		"gaps_and_one_point": {
			Title: "A gap", Width: 400, Height: 240, X: chart.Axis{Label: "t", Unit: "s"}, Y: chart.Axis{},
			Series: []chart.Series{series("with a gap", chart.Line, 1, 2, math.NaN(), 3, 2),
				series("one point", chart.Line, 2.5)},
		},
		"nothing": {Title: "Nothing was measured", Y: chart.Axis{Label: "rate", Unit: "1/s"}},
		"hostile": {
			Title:    `</title><script>alert(1)</script> & "quotes" ` + strings.Repeat("very long ", 40),
			Subtitle: "direction \u202eoverridden\u202c, bell \a, bad utf-8 \xff",
			X:        chart.Axis{Label: "]]>", Categories: []string{"<b>", "&amp;"}},
			Series: []chart.Series{series(`"onload="alert(1)`, chart.Bars, 1, 2),
				series("<style>*{display:none}", chart.Bars, -1, 3)},
			Guides: []chart.Guide{{At: 2, Label: "<!--"}},
		},
	}
}

// What is drawn is kept in testdata, one drawing a file: go test -update rewrites them, to be looked at.
func TestWriteSVG(t *testing.T) {
	t.Parallel()
	for name, c := range charts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := draw(t, c)
			if again := draw(t, c); got != again {
				t.Error("the same chart is drawn in two ways")
			}
			path := filepath.Join("testdata", name+".svg")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("drawn otherwise than %s; look at both, and rewrite it with -update", path)
			}
			checkSafe(t, got)
		})
	}
}

func TestWriteSheet(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := charts()
	if err := chart.WriteSheet(&b, "Two charts", c["bars"], c["lines"]); err != nil {
		t.Fatal(err)
	}
	checkSafe(t, b.String())
	for _, want := range []string{`height="840"`, "<title>Two charts</title>", "Violations by policy", "Step time by engines"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in the sheet", want)
		}
	}
	b.Reset()
	if err := chart.WriteSheet(&b, "Nothing"); err != nil {
		t.Fatal(err)
	}
	checkSafe(t, b.String())
}

func TestValidate(t *testing.T) {
	t.Parallel()
	at := func(x, y float64) []chart.Point { return []chart.Point{{X: x, Y: y}} }
	for _, tt := range []struct {
		name  string
		chart chart.Chart
		want  string
	}{
		{"an X that is no number", chart.Chart{Series: []chart.Series{{Name: "s", Points: at(math.NaN(), 1)}}},
			`series "s": the point (NaN, 1) cannot be shown`},
		{"endless X", chart.Chart{Series: []chart.Series{{Points: at(math.Inf(1), 1)}}}, "cannot be shown"},
		{"too large", chart.Chart{Series: []chart.Series{{Points: at(1, 1e300)}}}, "cannot be shown"},
		{"zero on a logarithmic axis", chart.Chart{Y: chart.Axis{Log: true}, Series: []chart.Series{{Points: at(1, 0)}}},
			"no place on a logarithmic axis"},
		{"areas at other places", chart.Chart{Series: []chart.Series{
			{Mark: chart.StackedAreas, Points: at(1, 1)}, {Name: "b", Mark: chart.StackedAreas, Points: at(2, 1)}}},
			`series "b": areas that are stacked need points at the same X`},
		{"too small", chart.Chart{Width: 10}, "a chart takes at least 240 x 180"},
		{"a mark that there is not", chart.Chart{Series: []chart.Series{{Mark: 99}}}, "there is no mark 99"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.chart.WriteSVG(io.Discard)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Whatever is drawn is well-formed, has no script and no number that is none.
func FuzzWriteSVG(f *testing.F) {
	f.Add("name", 1.0, 2.0, 3.0, uint8(0), true)
	f.Add("<&>", -1e14, 1e-9, 0.0, uint8(4), false)
	f.Add("n", 5.0, 5.0, 5.0, uint8(3), true)
	f.Fuzz(func(t *testing.T, name string, a, b, c float64, mark uint8, log bool) {
		drawn := chart.Chart{Title: name, Subtitle: name, X: chart.Axis{Label: name, Unit: name, Log: log},
			Y: chart.Axis{Whole: true, Log: log},
			Series: []chart.Series{{Name: name, Mark: chart.Mark(mark % 6), Points: []chart.Point{
				{X: a, Y: b, Label: name}, {X: b, Y: c, Low: a, High: c}, {X: c, Y: a}}}},
			Guides: []chart.Guide{{At: b, Label: name}, {At: c, Vertical: true, Label: name}}}
		var out bytes.Buffer
		if err := drawn.WriteSVG(&out); err == nil {
			checkSafe(t, out.String())
		}
	})
}

func draw(t *testing.T, c chart.Chart) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// checkSafe holds a drawing to what a page may take in.
func checkSafe(t *testing.T, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Local == "script" {
			t.Error("there is a script")
		}
		for _, a := range start.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" {
				t.Errorf("%s has the attribute %s", start.Name.Local, a.Name.Local)
			}
			if a.Name.Local != "class" && (strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf")) {
				t.Errorf("%s has %s=%q", start.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}
