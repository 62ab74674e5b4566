package scaling

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
)

const (
	// noticeable is by what share steps must have changed to count as shorter, or longer.
	noticeable = 0.03
	// vain is by what share steps must be shorter for a purchase not to be in vain.
	vain = 0.01
	// asBefore is how far the runs' work may be from what it was for what was measured then to hold.
	asBefore = 0.15
	// trialLasts bounds the wait for an effect: a trainer that stands still completes no steps.
	trialLasts = 6 * time.Hour
)

// trial is a change whose effect is not measured yet.
type trial struct {
	Decision int        `json:"decision"`
	Code     Code       `json:"code"`
	From     int        `json:"from"`
	To       int        `json:"to"`
	At       time.Time  `json:"at"`
	Work     float64    `json:"work"`
	Runs     []trialRun `json:"runs"`
	// Since is when as many engines as were wanted began to serve, and did not cease to.
	Since time.Time `json:"since,omitzero"`
}

// trialRun is a run whose steps are measured.
type trialRun struct {
	Effect
	Depth int     `json:"depth"`
	C     float64 `json:"c"`
	// Work is what a batch was in seconds of one engine, and Batch whatever the engines' pace.
	Work  float64 `json:"work,omitempty"`
	Batch float64 `json:"batch,omitempty"`
	// Comparable: the fleet determined the length of the steps before. If a full buffer hid that engines were missing,
	// those steps do not show what would have become of them.
	Comparable bool `json:"comparable"`
}

// try remembers what a change is predicted to do.
func (m *Machine) try(s *Sample, c Change, work float64) {
	t := &trial{Decision: c.No, Code: c.Code, From: c.From, To: c.To, At: c.At, Work: work}
	for _, e := range c.Predicted {
		for i := range s.Runs {
			if r := &s.Runs[i]; r.Name == e.Run {
				full := e.BeforeSec > max(r.P, r.C, r.RD)*(1-asBefore)
				t.Runs = append(t.Runs, trialRun{Effect: e, Depth: r.Depth, C: r.C, Work: r.work(), Batch: r.Batch,
					Comparable: full})
			}
		}
	}
	if slices.ContainsFunc(t.Runs, func(r trialRun) bool { return r.BeforeSec > 0 }) {
		m.Trial = t // without any step there is nothing to compare with
	}
}

// measuring reports whether a purchase's effect is still waited for.
func (m *Machine) measuring(s *Sample) bool {
	return m.Trial != nil && m.Trial.Code == Buys && s.At.Sub(m.Trial.At) < trialLasts
}

// judge measures the effect of the newest change, and takes back what did not do what it was for.
func (m *Machine) judge(s *Sample) []Command {
	t := m.Trial
	if t == nil {
		return nil
	}
	if s.At.Sub(t.At) > trialLasts {
		m.Trial = nil
		return nil
	}
	if s.Engines.Ready < t.To || t.To < t.From && s.Engines.Draining > 0 {
		t.Since = time.Time{} // an engine is missing, or one too many still works
		return nil
	}
	if t.Since.IsZero() {
		t.Since = s.At
	}
	if !t.sameRuns(s) {
		m.Trial = nil // what came, or went, has changed the others' steps
		return nil
	}
	said := Measured{Decision: t.Decision, At: s.At, From: t.From, To: t.To}
	for i := range t.Runs {
		r := &t.Runs[i]
		of := m.stepsOf(r.Run)
		if of == nil {
			return nil
		}
		sec, ok := of.after(t.Since, measuredOver(r.Depth))
		if !ok {
			return nil
		}
		r.MeasuredSec = sec
		said.Effects = append(said.Effects, r.Effect)
	}
	m.Trial = nil
	said.Text = effectText(t, said.Effects)
	commands := []Command{said}
	rested := !s.At.Before(t.At.Add(m.coldStart(s)))
	switch {
	case t.Code == Buys && !t.helped(s):
		m.Ceiling = &bound{t.From, t.workNow(s), batchOf(s)}
		if to := max(min(t.From, m.most()), m.least()); rested && to < m.Wanted {
			commands = append(commands, m.change(s.At, to, Undone,
				fmt.Sprintf("%s; back to %s", said.Text, units.Counted(to, "engine")), nil))
		}
	case t.Code == GivesBack && t.longer(s):
		m.Floor = &bound{t.From, workOf(s), batchOf(s)}
		if to := min(t.From, m.most()); rested && to > m.Wanted {
			commands = append(commands, m.change(s.At, to, Restored,
				fmt.Sprintf("%s; back to %s", said.Text, units.Counted(to, "engine")), nil))
		}
	}
	return commands
}

// sameRuns reports whether the runs that the change was made for are those that are active.
func (t *trial) sameRuns(s *Sample) bool {
	active := 0
	for i := range s.Runs {
		r := &s.Runs[i]
		if !r.active() {
			continue
		}
		active++
		if !slices.ContainsFunc(t.Runs, func(of trialRun) bool { return of.Run == r.Name }) {
			return false
		}
	}
	return active == len(t.Runs)
}

// grown is how much more work there is now than when the change was decided, at least 1.
func (t *trial) grown(s *Sample) float64 {
	if t.Work <= 0 {
		return 1
	}
	return max(1, t.workNow(s)/t.Work)
}

// workNow is the runs' work now, in seconds of an engine as fast as at the decision. Engines that share a bottleneck
// get slower as their number grows, and the work would seem to grow with it.
func (t *trial) workNow(s *Sample) float64 {
	work := 0.0
	for i := range s.Runs {
		r := &s.Runs[i]
		if !r.active() {
			continue
		}
		now := r.work()
		for _, then := range t.Runs {
			if then.Run == r.Name && then.Batch > 0 && r.Batch > 0 {
				now = then.Work * r.Batch / then.Batch
			}
		}
		work += now
	}
	return work
}

// helped reports whether the engines that were bought were of use to any run: it does not wait for batches any more,
// or its steps are shorter than they would be without them. The trainer's own time is not theirs to shorten.
func (t *trial) helped(s *Sample) bool {
	for i := range t.Runs {
		r := &t.Runs[i]
		waits := r.MeasuredSec - r.trainer(s)
		if !r.Comparable || waits < noticeable*r.MeasuredSec || r.MeasuredSec < r.BeforeSec*t.grown(s)*(1-vain) {
			return true
		}
	}
	return false
}

// trainer is how long the run's trainer takes now.
func (r *trialRun) trainer(s *Sample) float64 {
	for i := range s.Runs {
		if now := &s.Runs[i]; now.Name == r.Run && now.C > 0 {
			return now.C
		}
	}
	return r.C
}

// longer reports whether any run's steps are longer than before, for no other reason than that engines are gone.
func (t *trial) longer(s *Sample) bool {
	for i := range t.Runs {
		r := &t.Runs[i]
		slower := max(0, r.trainer(s)-r.C)
		expected := max(r.BeforeSec+slower, r.PredictedSec*t.grown(s))
		if r.BeforeSec > 0 && r.MeasuredSec > expected*(1+2*noticeable) {
			return true
		}
	}
	return false
}

func workOf(s *Sample) float64 {
	work := 0.0
	for i := range s.Runs {
		if s.Runs[i].active() {
			work += s.Runs[i].work()
		}
	}
	return work
}

// batchOf is how much work the batches of all runs are, whatever the engines' pace; 0: not known of one.
func batchOf(s *Sample) float64 {
	batch := 0.0
	for i := range s.Runs {
		switch r := &s.Runs[i]; {
		case !r.active():
		case r.Batch <= 0:
			return 0
		default:
			batch += r.Batch
		}
	}
	return batch
}

// learn forgets what was measured of other work than there is now.
func (m *Machine) learn(work, batch float64) {
	if m.Ceiling != nil && m.Ceiling.grown(work, batch) > asBefore {
		m.Ceiling = nil
	}
	if m.Floor != nil && m.Floor.grown(work, batch) < -asBefore {
		m.Floor = nil
	}
}

func effectText(t *trial, effects []Effect) string {
	text := fmt.Sprintf("%s in place of %d", units.Counted(t.To, "engine"), t.From)
	for i, e := range effects {
		if i > 0 {
			text += ", and"
		}
		how := "left"
		switch {
		case e.MeasuredSec < e.BeforeSec*(1-noticeable):
			how = "shortened"
		case e.MeasuredSec > e.BeforeSec*(1+noticeable):
			how = "lengthened"
		}
		if e.BeforeSec <= 0 {
			text += fmt.Sprintf(" steps of %s take %s (predicted %s)", e.Run, units.Seconds(e.MeasuredSec),
				units.Seconds(e.PredictedSec))
			continue
		}
		text += fmt.Sprintf(" %s steps of %s from %s to %s (predicted %s)", how, e.Run, units.Seconds(e.BeforeSec),
			units.Seconds(e.MeasuredSec), units.Seconds(e.PredictedSec))
	}
	return text
}
