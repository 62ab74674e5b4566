package virtualtime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// diary writes down what happens.
type diary struct{ lines []string }

func (d *diary) Happen(now time.Duration, arg uint64) {
	d.lines = append(d.lines, fmt.Sprintf("%d at %v", arg, now))
}

func (d *diary) read() string { return strings.Join(d.lines, ", ") }

func playAll(a *Agenda) {
	for a.Step() {
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		put  func(a *Agenda, d *diary)
		want string
	}{
		{"by time", func(a *Agenda, d *diary) {
			a.At(3, 0, d, 3)
			a.At(1, 0, d, 1)
			a.At(2, 0, d, 2)
		}, "1 at 1ns, 2 at 2ns, 3 at 3ns"},
		{"at one time by class", func(a *Agenda, d *diary) {
			a.At(5, 2, d, 2)
			a.At(5, 0, d, 0)
			a.At(5, 255, d, 255)
			a.At(5, 1, d, 1)
		}, "0 at 5ns, 1 at 5ns, 2 at 5ns, 255 at 5ns"},
		{"in one class in the order of putting", func(a *Agenda, d *diary) {
			for i := range uint64(6) {
				a.At(5, 1, d, i)
			}
		}, "0 at 5ns, 1 at 5ns, 2 at 5ns, 3 at 5ns, 4 at 5ns, 5 at 5ns"},
		{"a timer moved earlier", func(a *Agenda, d *diary) {
			timer := a.Timer(0, d, 9)
			timer.Set(10)
			a.At(5, 0, d, 5)
			timer.Set(1)
		}, "9 at 1ns, 5 at 5ns"},
		{"a timer moved later", func(a *Agenda, d *diary) {
			timer := a.Timer(0, d, 9)
			timer.Set(1)
			a.At(5, 0, d, 5)
			timer.Set(10)
		}, "5 at 5ns, 9 at 10ns"},
		{"a timer moved to the time of another is behind it", func(a *Agenda, d *diary) {
			timer := a.Timer(0, d, 9)
			timer.Set(1)
			a.At(5, 0, d, 5)
			timer.Set(5)
		}, "5 at 5ns, 9 at 5ns"},
		{"a timer set again to its own time keeps its turn", func(a *Agenda, d *diary) {
			timer := a.Timer(0, d, 9)
			timer.Set(5)
			a.At(5, 0, d, 5)
			timer.Set(5)
		}, "9 at 5ns, 5 at 5ns"},
		{"a timer stopped", func(a *Agenda, d *diary) {
			timer := a.Timer(0, d, 9)
			timer.Set(1)
			a.At(5, 0, d, 5)
			timer.Stop()
			timer.Stop()
		}, "5 at 5ns"},
		{"a timer that was never set", func(a *Agenda, d *diary) { a.Timer(0, d, 9) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, d := NewAgenda(), &diary{}
			tt.put(a, d)
			playAll(a)
			if got := d.read(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// echo puts another event there when one happens.
type echo struct {
	diary
	agenda *Agenda
	again  *Timer
	left   int
	after  time.Duration
}

func (e *echo) Happen(now time.Duration, arg uint64) {
	e.diary.Happen(now, arg)
	if e.left--; e.left >= 0 {
		e.again.Set(now + e.after)
	}
}

func TestTimersAreSetAgainWhileTheyHappen(t *testing.T) {
	t.Parallel()
	a := NewAgenda()
	e := &echo{agenda: a, left: 2, after: 7}
	e.again = a.Timer(0, e, 1)
	e.again.Set(1)
	playAll(a)
	if got, want := e.read(), "1 at 1ns, 1 at 8ns, 1 at 15ns"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, set := e.again.Pending(); set || a.Pending() != 0 || a.Events() != 3 {
		t.Errorf("set %t, %d pending, %d events", set, a.Pending(), a.Events())
	}
}

func TestThePastIsNow(t *testing.T) {
	t.Parallel()
	a := NewAgenda()
	e := &echo{agenda: a, left: 1, after: -100}
	e.again = a.Timer(0, e, 1)
	a.At(50, 0, e, 0)
	a.At(50, 0, e, 2)
	playAll(a)
	if got, want := e.read(), "0 at 50ns, 2 at 50ns, 1 at 50ns"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzAgenda holds the agenda against a list that is sorted before every event.
func FuzzAgenda(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		type entry struct {
			at       time.Duration
			class    Class
			seq, arg uint64
		}
		random := SplitMix(seed)
		a, d := NewAgenda(), &diary{}
		var list []entry
		var timers []*Timer
		seq := uint64(0)
		put := func(at time.Duration, class Class, arg uint64) {
			seq++
			list = append(list, entry{max(at, a.Now()), class, seq, arg})
		}
		drop := func(arg uint64) {
			list = slices.DeleteFunc(list, func(e entry) bool { return e.arg == arg })
		}
		for n := range uint64(400) {
			at := a.Now() + time.Duration(random.IntN(20)-3)
			switch class := Class(random.IntN(3)); {
			case random.IntN(4) == 0:
				a.At(at, class, d, 1000+n)
				put(at, class, 1000+n)
			case random.IntN(4) == 0:
				timers = append(timers, a.Timer(class, d, uint64(len(timers))))
			case len(timers) > 0 && random.IntN(2) == 0:
				i := random.IntN(len(timers))
				timer := timers[i]
				if random.IntN(4) == 0 {
					timer.Stop()
					drop(uint64(i))
				} else if was, set := timer.Pending(); !set || was != max(at, a.Now()) {
					timer.Set(at)
					drop(uint64(i))
					put(at, timer.class, uint64(i))
				}
			default:
				slices.SortFunc(list, func(x, y entry) int {
					return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.class, y.class), cmp.Compare(x.seq, y.seq))
				})
				before, events := a.Now(), len(d.lines)
				if a.Step() != (len(list) > 0) {
					t.Fatalf("%d events are listed, and the agenda differs", len(list))
				}
				if len(d.lines) > events {
					if want := fmt.Sprintf("%d at %v", list[0].arg, list[0].at); d.lines[events] != want {
						t.Fatalf("got %s, want %s", d.lines[events], want)
					}
					list = list[1:]
				}
				if a.Now() < before {
					t.Fatalf("time runs back from %v to %v", before, a.Now())
				}
			}
			if a.Pending() != len(list) {
				t.Fatalf("%d pending, want %d", a.Pending(), len(list))
			}
		}
	})
}

// nothing is a handler that does nothing.
type nothing struct{}

func (nothing) Happen(time.Duration, uint64) {}

// TestEventsAllocateNothing: of an agenda that has been as long before.
func TestEventsAllocateNothing(t *testing.T) {
	a := NewAgenda() // not parallel: it counts allocations
	timer := a.Timer(0, nothing{}, 0)
	run := func() {
		for i := range time.Duration(100) {
			a.At(a.Now()+i*7%31, 0, nothing{}, 1)
			timer.Set(a.Now() + i)
		}
		playAll(a)
	}
	run()
	if n := testing.AllocsPerRun(10, run); n > 0 {
		t.Errorf("200 events allocate %.0f times", n)
	}
}

// BenchmarkEvents is one event put there and happening, with 1,000 others waiting.
func BenchmarkEvents(b *testing.B) {
	a := NewAgenda()
	random := SplitMix(1)
	for range 1000 {
		a.At(time.Duration(random.IntN(1000)), 0, nothing{}, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		a.At(a.Now()+time.Duration(random.IntN(1000)), 0, nothing{}, 0)
		a.Step()
	}
}
