package figure_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/trials/figure"
)

func TestFiguresAreAFileOfTheirOwn(t *testing.T) {
	t.Parallel()
	one := figure.Figure{Title: "Step time </svg>", Subtitle: "<script>", XLabel: "engines", YLabel: "step time (s)",
		Panel: chart.Panel{To: 8, Ticks: chart.NumberTicks(0, 8, 8, true), Lines: []chart.PanelLine{
			{Name: "others", Class: "soft", Dots: true, Points: []chart.Point{{X: 1, Y: 600}}},
			{Name: "depth 1", Points: []chart.Point{{X: 1, Y: 690}, {X: 8, Y: 166, Label: "now"}}},
			{Name: "depth 2", Points: []chart.Point{{X: 1, Y: 600}, {X: 8, Y: 150}}}}}}
	var b bytes.Buffer
	if err := figure.Write(&b, "Two", one, one); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
	for _, want := range []string{`height="852"`, "<title>Two</title>", `c-soft`, `c-0`, `c-1`, ">depth 2<", ">now<",
		">engines<", "prefers-color-scheme:dark"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in the file", want)
		}
	}
}

// TestLegendIsInTheFigure: what has no room beside the others is in the next row.
func TestLegendIsInTheFigure(t *testing.T) {
	t.Parallel()
	var f figure.Figure
	f.To, f.Ticks = 8, chart.NumberTicks(0, 8, 8, true)
	for range 5 {
		f.Lines = append(f.Lines, chart.PanelLine{Name: strings.Repeat("name ", 6), Points: []chart.Point{{X: 1, Y: 1}}})
	}
	var b bytes.Buffer
	if err := figure.Write(&b, "One", f); err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, of := range regexp.MustCompile(`<rect class="fill[^>]* y="(\d+)"`).FindAllStringSubmatch(b.String(), -1) {
		rows[of[1]]++
	}
	if len(rows) != 2 || rows["54"] != 3 {
		t.Errorf("entries by row: %v", rows)
	}
}
