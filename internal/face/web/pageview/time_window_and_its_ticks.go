package pageview

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/chart"
)

// Window is the stretch of time that a page's charts show.
type Window struct{ From, To time.Time }

// ParseWindow reads the ends of a window, as RFC 3339; what is empty is the whole.
func ParseWindow(from, to string, whole Window) (w Window, zoomed bool, err error) {
	w = whole
	for _, end := range []struct {
		text string
		into *time.Time
	}{{from, &w.From}, {to, &w.To}} {
		if end.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, end.text)
		if err != nil {
			return whole, false, fmt.Errorf("%q is no time such as 2026-01-02T15:04:05Z", end.text)
		}
		*end.into, zoomed = at, true
	}
	if !w.From.Before(w.To) {
		return whole, false, fmt.Errorf("no time lies from %s to %s", from, to)
	}
	return w, zoomed, nil
}

func sec(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func at(sec float64) time.Time { return time.UnixMilli(int64(sec * 1000)).UTC() }

func (w Window) seconds() float64 { return w.To.Sub(w.From).Seconds() }

// tickSteps are the distances of ticks of time that read well.
var tickSteps = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute,
	30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	48 * time.Hour, 7 * 24 * time.Hour, 14 * 24 * time.Hour, 28 * 24 * time.Hour}

// ticks are about eight places of a window with their times in UTC; every other one may be left out.
func (w Window) ticks() []chart.PanelTick {
	i := slices.IndexFunc(tickSteps, func(d time.Duration) bool { return w.To.Sub(w.From) <= 8*d })
	step := tickSteps[len(tickSteps)-1]
	if i >= 0 {
		step = tickSteps[i]
	}
	format := "15:04:05"
	switch {
	case w.To.Sub(w.From) > 36*time.Hour:
		format = "01-02 15:04"
	case step >= time.Minute:
		format = "15:04"
	}
	var ticks []chart.PanelTick
	for t := w.From.UTC().Truncate(step).Add(step); t.Before(w.To) && len(ticks) < 64; t = t.Add(step) {
		share := t.Sub(w.From).Seconds() / w.seconds()
		if share < 0.03 || share > 0.97 { // its text would be cut off
			continue
		}
		ticks = append(ticks, chart.PanelTick{At: sec(t), Text: t.Format(format), Time: t.Format(time.RFC3339),
			Minor: len(ticks)%2 == 1})
	}
	return ticks
}
