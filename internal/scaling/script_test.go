package scaling

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/eventscript"
	"github.com/millrace/millrace/internal/rollout"
)

// TestScripts plays testdata/scripts: what happens to a fleet, and below each line what the machine decides. Engines
// and runs are a small world: engines that are wanted serve after their cold start, and a step takes as long as the
// longest of trainer, work by engines, and latency.
//
//	config policy=starvation min=1 max=8 [engines=4 zero=15m price=2 budget=10 target=8 buffer=1 up=30s down=5m
//	       step=200s]
//	run NAME [c=150s work=1200 rd=20s floor=290s depth=2 priority=1 most=3 requests=40]   begins, or changes it
//	       floor: a step takes as long whatever the terms say
//	pause NAME | resume NAME | end NAME
//	cold 60s | stuck | unstuck    how long engines take to start from now on | they never serve
//	lose                          an engine that serves; the driver replaces it
//	pass 10m                      samples every 10 s
//	show                          wanted number, engines, why
func TestScripts(t *testing.T) {
	eventscript.Run(t, "testdata/scripts/*", func() func(*eventscript.Event) (string, error) {
		w := &world{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), cold: time.Minute}
		w.began = w.now
		return w.play
	})
}

type world struct {
	m          *Machine
	now, began time.Time
	cold       time.Duration
	stuck      bool
	shared     int     // so many engines use up what all of them share; 0: they share nothing
	slower     float64 // by what factor all engines have become slower by themselves; 0: they have not
	seen       float64 // cold start
	starts     []time.Time
	serving    int
	runs       []worldRun
	out        strings.Builder
}

type worldRun struct {
	Run
	work, floor float64
	compute     float64
	requests    int
	progress    float64
}

func (w *world) play(e *eventscript.Event) (string, error) {
	w.out.Reset()
	switch e.Word(0) {
	case "config":
		if err := w.configure(e); err != nil {
			return "", err
		}
	case "run":
		w.run(e)
	case "pause", "resume":
		w.of(e.Word(1)).Paused = e.Word(0) == "pause"
	case "end":
		w.runs = slices.DeleteFunc(w.runs, func(r worldRun) bool { return string(r.Name) == e.Word(1) })
	case "cold":
		d, err := time.ParseDuration(e.Word(1))
		if err != nil {
			return "", err
		}
		w.cold = d
	case "stuck", "unstuck":
		w.stuck = e.Word(0) == "stuck"
	case "shared":
		w.shared, w.slower = e.Int("engines"), e.Float("slower")
	case "lose":
		w.serving--
	case "pass":
		d, err := time.ParseDuration(e.Word(1))
		if err != nil {
			return "", err
		}
		for end := w.now.Add(d); w.now.Before(end); {
			w.tick(10 * time.Second)
		}
	case "show":
		fmt.Fprintf(&w.out, "wanted %d, serving %d, starting %d: %s\n", w.m.Wanted, w.serving, len(w.starts), w.m.Why)
	default:
		return "", fmt.Errorf("nobody knows %q", e.Word(0))
	}
	return w.out.String(), nil
}

func (w *world) configure(e *eventscript.Event) error {
	c := Config{Policy: Policy(e.Text("policy")), Min: e.Int("min"), Max: e.Int("max"), Engines: e.Int("engines"),
		ScaleToZero: rollout.Duration(e.Duration("zero")), Price: e.Float("price"), Budget: e.Float("budget"),
		Queue: QueueConfig{TargetInputs: e.Int("target"), Buffer: e.Int("buffer"),
			ScaleUp: rollout.Duration(e.Duration("up")), ScaleDown: rollout.Duration(e.Duration("down"))},
		Starvation: StarvationConfig{TargetStep: rollout.Duration(e.Duration("step"))}}
	if w.m != nil {
		w.tell(w.m.Handle(Set{w.now, c}))
		return c.Validate()
	}
	m, err := New(c)
	w.m = m
	return err
}

func (w *world) of(name string) *worldRun {
	i := slices.IndexFunc(w.runs, func(r worldRun) bool { return string(r.Name) == name })
	if i < 0 {
		w.runs = append(w.runs, worldRun{Run: Run{Name: rollout.RunName(name), Depth: 2}})
		i = len(w.runs) - 1
	}
	return &w.runs[i]
}

func (w *world) run(e *eventscript.Event) {
	r := w.of(e.Word(1))
	set := func(name string, into *float64, value float64) {
		if e.Text(name) != "" {
			*into = value
		}
	}
	set("c", &r.compute, e.Duration("c").Seconds())
	set("work", &r.work, e.Float("work"))
	set("rd", &r.RD, e.Duration("rd").Seconds())
	set("floor", &r.floor, e.Duration("floor").Seconds())
	for name, into := range map[string]*int{"depth": &r.Depth, "priority": &r.Priority, "most": &r.MaxEngines,
		"requests": &r.requests} {
		if e.Text(name) != "" {
			*into = e.Int(name)
		}
	}
}

// tick lets time pass, and gives the machine a sample of it.
func (w *world) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.starts = slices.DeleteFunc(w.starts, func(began time.Time) bool {
		ready := !w.stuck && !w.now.Before(began.Add(w.cold))
		if ready {
			w.serving++
			w.seen = w.cold.Seconds()
		}
		return ready
	})
	s := Sample{At: w.now, Sec: d.Seconds(), ColdStartSec: w.seen,
		Engines: Engines{Starting: len(w.starts), Ready: w.serving}}
	needed := 0.0
	for i := range w.runs {
		if r := &w.runs[i]; !r.Paused {
			needed += r.work / max(r.compute, r.RD, r.floor)
		}
	}
	serving := w.serving
	if w.shared > 0 {
		serving = min(serving, w.shared) // the others only make them slower
	}
	s.SlotShare = min(1, needed/float64(max(1, serving)))
	for i := range w.runs {
		r := &w.runs[i]
		r.pass(w.now, d.Seconds(), serving, needed)
		if w.shared > 0 {
			r.P, r.Engines, r.Batch = r.work/float64(max(1, serving)), float64(w.serving), 1000*r.work
			r.P *= max(1, w.slower)
		}
		if !r.Paused {
			s.Outstanding += r.requests
		}
		s.Runs = append(s.Runs, r.Run)
	}
	w.tell(w.m.Handle(s))
	w.remember()
	for w.serving+len(w.starts) < w.m.Wanted {
		w.starts = append(w.starts, w.now)
	}
	for w.serving+len(w.starts) > w.m.Wanted {
		if n := len(w.starts); n > 0 {
			w.starts = w.starts[:n-1]
		} else {
			w.serving--
		}
	}
}

// pass plays a run for some seconds.
func (r *worldRun) pass(now time.Time, sec float64, serving int, needed float64) {
	r.StarvedSec, r.Waits, r.P, r.Engines = 0, false, 0, float64(serving)
	if r.Paused || serving == 0 {
		return
	}
	r.P = r.work / float64(serving)
	own := max(r.compute, r.RD, r.floor)
	takes := max(own, own*needed/float64(serving))
	r.progress += sec / takes
	for r.progress >= 1 {
		r.progress--
		r.Steps++
		r.LastEnd = now
		r.C = r.compute
	}
	r.StarvedSec = sec * (1 - r.compute/takes)
	r.Waits = r.Steps == 0 || r.StarvedSec > 0
}

// remember has the machine go on as another one, that has nothing but its state.
func (w *world) remember() {
	text, err := json.Marshal(w.m.State)
	if err != nil {
		panic(err)
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		panic(err)
	}
	if w.m, err = Restore(s); err != nil {
		panic(err)
	}
}

func (w *world) tell(commands []Command) {
	for _, c := range commands {
		switch c := c.(type) {
		case Change:
			fmt.Fprintf(&w.out, "%v  %d -> %d  %s: %s\n", c.At.Sub(w.began), c.From, c.To, c.Code, c.Reason)
		case Measured:
			fmt.Fprintf(&w.out, "%v  measured of %d: %s\n", c.At.Sub(w.began), c.Decision, c.Text)
		}
	}
}
