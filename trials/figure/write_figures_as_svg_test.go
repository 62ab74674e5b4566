package figure_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
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
