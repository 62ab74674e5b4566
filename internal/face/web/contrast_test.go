package web

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Texts have the contrast that WCAG calls AA (4.5 to 1) against every ground that they stand on, and what a chart is
// read by, which is no text, has 3 to 1 against the page: in both themes.
func TestContrastIsEnough(t *testing.T) {
	t.Parallel()
	sheet, err := staticFiles.ReadFile("static/page.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark := themes(t, string(sheet))
	for name, theme := range map[string]map[string]string{"light": light, "dark": dark} {
		for _, text := range []string{"ink", "soft", "link", "good", "warn", "bad"} {
			for _, ground := range []string{"paper", "raised", "warn-paper", "bad-paper", "good-paper"} {
				if got := contrast(t, theme[text], theme[ground]); got < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f, less than 4.5", name, text, ground, got)
				}
			}
		}
		for _, mark := range []string{"wait", "load", "ref", "train", "publish", "checkpoint", "other", "engine",
			"queue", "environment", "ready", "change", "value", "a", "b", "c", "d", "e", "f", "g", "h"} {
			if got := contrast(t, theme[mark], theme["paper"]); got < 3 {
				t.Errorf("%s: %s on the page has a contrast of %.2f, less than 3", name, mark, got)
			}
		}
		for shade, part := range tokenShades(t, string(sheet)) { // a token's text stands on its shade
			ground := mix(t, theme["bad"], theme["paper"], part)
			if got := contrast(t, theme["ink"], ground); got < 4.5 {
				t.Errorf("%s: a token shaded %s has a contrast of %.2f, less than 4.5", name, shade, got)
			}
		}
	}
}

var variable = regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6})`)

// themes are the colours by day and by night; what the night does not change is as by day.
func themes(t *testing.T, sheet string) (light, dark map[string]string) {
	t.Helper()
	day, rest, found := strings.Cut(sheet, "@media (prefers-color-scheme: dark)")
	night, _, ended := strings.Cut(rest, "\n}\n")
	if !found || !ended {
		t.Fatal("the style sheet has no colours by night")
	}
	light, dark = map[string]string{}, map[string]string{}
	for _, m := range variable.FindAllStringSubmatch(day, -1) {
		light[m[1]], dark[m[1]] = m[2], m[2]
	}
	for _, m := range variable.FindAllStringSubmatch(night, -1) {
		dark[m[1]] = m[2]
	}
	return light, dark
}

var shadeRule = regexp.MustCompile(`\.(p[1-5]) \{ background: color-mix\(in srgb, var\(--bad\) (\d+)%, transparent\)`)

func tokenShades(t *testing.T, sheet string) map[string]float64 {
	t.Helper()
	shades := map[string]float64{}
	for _, m := range shadeRule.FindAllStringSubmatch(sheet, -1) {
		percent, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		shades[m[1]] = float64(percent) / 100
	}
	if len(shades) != 5 {
		t.Fatalf("shades %v", shades)
	}
	return shades
}

// channels are red, green and blue from 0 to 1.
func channels(t *testing.T, colour string) (c [3]float64) {
	t.Helper()
	v, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil {
		t.Fatalf("colour %q: %v", colour, err)
	}
	for i := range c {
		c[i] = float64(v>>(16-8*i)&0xff) / 255
	}
	return c
}

// mix is so much of a colour over another.
func mix(t *testing.T, over, under string, part float64) string {
	t.Helper()
	a, b := channels(t, over), channels(t, under)
	v := uint64(0)
	for i := range a {
		v = v<<8 | uint64(math.Round(255*(part*a[i]+(1-part)*b[i])))
	}
	return "#" + strconv.FormatUint(1<<24|v, 16)[1:]
}

// contrast is the ratio of two colours' luminances, as WCAG 2 computes it.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) (l float64) {
		for i, c := range channels(t, colour) {
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			l += []float64{0.2126, 0.7152, 0.0722}[i] * c
		}
		return l
	}
	high, low := luminance(a), luminance(b)
	if high < low {
		high, low = low, high
	}
	return (high + 0.05) / (low + 0.05)
}
