package pageview

import (
	"fmt"
	"sort"
	"time"

	"github.com/millrace/millrace/internal/face/web/runhistory"
)

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
