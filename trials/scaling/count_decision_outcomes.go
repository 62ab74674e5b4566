package trial

import "github.com/millrace/millrace/internal/scaling"

// Course is what the laws are held against: of all changes of one workload.
type Course struct {
	Purchases int // engines were bought, the wake at the beginning apart
	// Unfounded is the purchases of which the run was not capacity-bound by its own terms, and First those before the
	// first step, when the trainer waited for it.
	Unfounded, First int
	GivenBack        int
	Undone, Restored int
	// Flaps is the changes that followed one of the same direction within a cold start, as long as was known then.
	Flaps int
	// Shortest is the shortest time between two changes, in cold starts; 0: there were no two.
	Shortest float64
}

type watcher struct {
	course Course
	last   map[bool]scaling.Decision
	newest *scaling.Decision
}

// decided hears of a sample and what came of it.
func (w *watcher) decided(s scaling.Sample, commands []scaling.Command) {
	for _, c := range commands {
		change, ok := c.(scaling.Change)
		if !ok {
			continue
		}
		w.changed(&s, change.Decision)
	}
}

func (w *watcher) changed(s *scaling.Sample, d scaling.Decision) {
	cold := s.ColdStartSec
	up := d.To > d.From
	if w.last == nil {
		w.last = map[bool]scaling.Decision{}
	}
	if before, ok := w.last[up]; ok && d.At.Sub(before.At).Seconds() < cold {
		w.course.Flaps++
	}
	if w.newest != nil && cold > 0 {
		if apart := d.At.Sub(w.newest.At).Seconds() / cold; w.course.Shortest == 0 || apart < w.course.Shortest {
			w.course.Shortest = apart
		}
	}
	w.last[up], w.newest = d, &d
	run := &s.Runs[0]
	switch d.Code {
	case scaling.Buys:
		w.course.Purchases++
		if run.C <= 0 {
			w.course.First++
			if !run.Waits || s.SlotShare < 0.5 {
				w.course.Unfounded++
			}
		} else if run.P <= max(run.C, run.RD) {
			w.course.Unfounded++
		}
	case scaling.GivesBack:
		w.course.GivenBack++
	case scaling.Undone:
		w.course.Undone++
	case scaling.Restored:
		w.course.Restored++
	case scaling.Configured, scaling.QueueUp, scaling.QueueDown, scaling.Idles, scaling.Wakes:
	}
}

// Courses is the sum of all courses of starvation with such a least number of engines.
func Courses(all []Comparison, least int) Course {
	var sum Course
	for i := range all {
		c := all[i].From[least].Course
		sum.Purchases += c.Purchases
		sum.Unfounded += c.Unfounded
		sum.First += c.First
		sum.GivenBack += c.GivenBack
		sum.Undone += c.Undone
		sum.Restored += c.Restored
		sum.Flaps += c.Flaps
		if c.Shortest > 0 && (sum.Shortest == 0 || c.Shortest < sum.Shortest) {
			sum.Shortest = c.Shortest
		}
	}
	return sum
}
