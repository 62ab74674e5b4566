package pageview

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/millrace/millrace/internal/face/web/runhistory"
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

// bucket is a stretch of a window with the steps that were completed in it; one of its own for each step where there
// are few.
type bucket struct {
	from, to float64
	steps    []runhistory.Step
}

// mostBuckets is how many columns a chart has at most: as many as can be pointed at.
const mostBuckets = 80

// bucketsOf gathers the steps of a window. What it leaves out, it leaves out of no chart alone.
func bucketsOf(steps []runhistory.Step, w Window) []bucket {
	from := sort.Search(len(steps), func(i int) bool { return !steps[i].At.Before(w.From) })
	to := from
	for to < len(steps) && !startOf(steps[to]).After(w.To) {
		to++
	}
	shown := steps[from:to]
	var buckets []bucket
	if len(shown) <= mostBuckets {
		for i := range shown {
			buckets = append(buckets, bucket{sec(startOf(shown[i])), sec(shown[i].At), shown[i : i+1]})
		}
		return buckets
	}
	width := w.seconds() / mostBuckets
	for i := 0; i < len(shown); {
		place := int(shown[i].At.Sub(w.From).Seconds() / width)
		end := i + 1
		for end < len(shown) && int(shown[end].At.Sub(w.From).Seconds()/width) == place {
			end++
		}
		left := sec(w.From) + float64(place)*width
		buckets = append(buckets, bucket{left, left + width, shown[i:end]})
		i = end
	}
	return buckets
}

func startOf(s runhistory.Step) time.Time {
	return s.At.Add(-time.Duration(s.Sec * float64(time.Second)))
}

// mean is of the bucket's steps.
func (b bucket) mean(of func(*runhistory.Step) float64) float64 {
	sum := 0.0
	for i := range b.steps {
		sum += of(&b.steps[i])
	}
	return sum / float64(len(b.steps))
}

func (b bucket) max(of func(*runhistory.Step) float64) float64 {
	most := of(&b.steps[0])
	for i := range b.steps {
		most = max(most, of(&b.steps[i]))
	}
	return most
}

// name is the steps of a bucket, as a row of a table or a tip is called.
func (b bucket) name() string {
	first, last := b.steps[0].No, b.steps[len(b.steps)-1].No
	if first == last {
		return fmt.Sprintf("step %d", first)
	}
	return fmt.Sprintf("steps %d to %d", first, last)
}

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
