package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/chart"
)

// hostile is a text that would be markup if nobody escaped it.
const hostile = "</svg><script>alert(1)</script>\" onload=\"alert(1)\x00"

func panel() chart.Panel {
	return chart.Panel{
		Description: hostile, From: 0, To: 10,
		Layers: []chart.Layer{{Name: "ready", Class: "ready"}, {Name: "queued", Class: "queued"}},
		Columns: []chart.Column{{From: 0, To: 5, Values: []float64{3, 40}, Tip: hostile}, {From: 5, To: 20,
			Values: []float64{1}}},
		Lines: []chart.PanelLine{
			{Name: "steps", Class: "a", Stairs: true, Points: []chart.Point{{X: 1, Y: 2}, {X: 4, Y: 9}}},
			{Name: "gap", Class: "b", Points: []chart.Point{{X: 0, Y: 1}, {X: 2, Y: math.NaN()}, {X: 4, Y: 5}}},
			{Name: "dots", Class: "c", Dots: true, Points: []chart.Point{{X: 1, Y: 1, Low: 0, High: 2, Label: hostile}, {X: 2,
				Y: 2}}},
		},
		Guides: []chart.Guide{{At: 42, Label: hostile}},
		Flags:  []chart.Flag{{At: 2, Class: "jump", Tip: hostile, Label: hostile}, {At: 9, Minor: true}},
		Ticks:  []chart.PanelTick{{At: 5, Text: "12:00", Time: "2026-01-01T12:00:00Z"}, {At: 11, Text: "outside"}},
	}
}

func drawn(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	checkSafe(t, b.String())
	return b.String()
}

func TestPanelDrawsItsParts(t *testing.T) {
	t.Parallel()
	got := drawn(t, panel().WriteSVG)
	if again := drawn(t, panel().WriteSVG); got != again {
		t.Error("the same panel is drawn in two ways")
	}
	for what, want := range map[string]string{
		"the first layer, from the foot":     `<path class="fill c-ready" d="M0 126V119.7H500V126ZM500 126V123.9H1000V126Z"/>`,
		"the second layer, on the first":     `<path class="fill c-queued" d="M0 119.7V35.7H500V119.7Z"/>`,
		"stairs":                             `<path class="stroke c-a" d="M100 121.8H400V107.1"/>`,
		"a gap leaves points alone":          `<path class="stroke c-b" d="M0 123.9h0.01M400 115.5h0.01"/>`,
		"dots are not joined":                `<path class="stroke dots c-c" d="M100 123.9h0.01M200 121.8h0.01"/>`,
		"an interval":                        `<path class="band c-c" d="M100 126V121.8"/>`,
		"a guide":                            `<line class="guide" x1="0" x2="100%" y1="51.8" y2="51.8"/>`,
		"a tick that the page's script says": `x="50%" y="156" data-time="2026-01-01T12:00:00Z">12:00</text>`,
		"the axis begins at zero":            `y="144">0</text>`,
		"and ends at a round number":         `y="18">60</text>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: no %s in\n%s", what, want, got)
		}
	}
	if strings.Contains(got, "outside") {
		t.Error("a tick outside of the axis is drawn")
	}
}

// One value far above the others does not flatten them: the axis is cut, and says how high the value is. Where several
// are so high, or all values are few, nothing is cut.
func TestOutliersAreCutOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		count, high int
		guide       float64
		cut         bool
		top         string
	}{
		{"one of many", 60, 1, 5, true, ">15<"}, {"a level of its own", 60, 20, 5, false, ">60<"},
		{"few values", 8, 1, 5, false, ">60<"}, {"a guide stays in sight", 60, 1, 50, true, ">60<"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := chart.Panel{To: 60, Cut: true, Guides: []chart.Guide{{At: tt.guide}}}
			for i := range tt.count {
				height := 10.0
				if i < tt.high {
					height = 52
				}
				p.Columns = append(p.Columns, chart.Column{From: float64(i), To: float64(i + 1), Values: []float64{height}})
			}
			got := drawn(t, p.WriteSVG)
			said := strings.Contains(got, "&#9650; 52<") && strings.Contains(got, "beyond the axis")
			if low := tt.guide < 40; said != (tt.cut && low) || !strings.Contains(got, tt.top) {
				t.Errorf("says that it is cut: %v, wants a tick %s in\n%s", said, tt.top, got)
			}
		})
	}
}

func TestNumbersOfAnAxisAreRound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		y    float64
		want []string
	}{
		{"small shares", 0.043, []string{">0<", ">0.02<", ">0.04<", ">0.06<"}},
		{"thousands", 14321, []string{">0<", ">5k<", ">10k<", ">15k<"}},
		{"millions", 3e7, []string{">0<", ">10M<", ">20M<", ">30M<"}},
		{"below zero", -3, []string{">-3<", ">-2<", ">-1<", ">0<"}},
		{"nothing", 0, []string{">0<", ">1<"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := drawn(t, chart.Panel{To: 1, Lines: []chart.PanelLine{{Points: []chart.Point{{Y: tt.y}}}}}.WriteSVG)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("no tick %s in\n%s", want, got)
				}
			}
		})
	}
}

func TestStripAndSparkAreSafe(t *testing.T) {
	t.Parallel()
	strip := drawn(t, chart.Strip{Description: hostile, From: 0, To: 10,
		Segments: []chart.Segment{{From: -5, To: 5, Class: "wait", Tip: hostile}, {From: 12, To: 15}},
		Marks:    []chart.Flag{{At: 3, Class: "jump", Tip: hostile}, {At: 30}}}.WriteSVG)
	if !strings.Contains(strip, `c-wait" x="0%" width="50%"`) || strings.Count(strip, "<rect") != 1 {
		t.Errorf("segments are not cut to the strip:\n%s", strip)
	}
	drawn(t, func(w io.Writer) error { return chart.Spark(w, hostile, "c", []float64{1, math.NaN(), 3}) })
	var none bytes.Buffer
	if err := chart.Spark(&none, "", "c", []float64{1}); err != nil || none.Len() > 0 {
		t.Errorf("one value is drawn: %s, %v", none.String(), err)
	}
}

// Whatever is drawn is well-formed, has no script and no number that is none.
func FuzzPanel(f *testing.F) {
	f.Add("name", 1.0, 2.0, 3.0)
	f.Add("<&>", -1e14, 1e-9, 0.0)
	f.Add("n", 5.0, 5.0, math.Inf(1))
	f.Fuzz(func(t *testing.T, name string, a, b, c float64) {
		p := chart.Panel{Description: name, To: 3, Layers: []chart.Layer{{}},
			Columns: []chart.Column{{To: 1, Values: []float64{a}, Tip: name}},
			Lines: []chart.PanelLine{{Points: []chart.Point{{Y: a, Label: name}, {X: 1, Y: b, Low: a, High: c}, {X: 2,
				Y: c}}}},
			Guides: []chart.Guide{{At: b, Label: name}}}
		drawn(t, p.WriteSVG)
	})
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
