package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// StepTimeline is one step second by second: the trainer's phases, and during waits, the awaited group and its state.
type StepTimeline struct {
	Run      rollout.RunName `json:"run"`
	Step     rollout.Step    `json:"step"`
	Summary  string          `json:"summary"`
	AskedAt  time.Time       `json:"asked_at"`
	StepSec  float64         `json:"step_seconds"`
	UsualSec float64         `json:"usual_seconds"` // of the level that the step belongs to
	// Spans follow each other without a gap, from the first claim of the step to its end.
	Spans  []Span      `json:"spans"`
	Groups []GroupWait `json:"groups"` // of the batch, by the time at which they were ready; those ready before are first
	Losses []Loss      `json:"losses"` // of this step
	Notes  []string    `json:"notes"`
	Next   []string    `json:"next"` // commands
}

// Span is a stretch of a step. Times are in seconds since the step was first claimed.
type Span struct {
	FromSec float64           `json:"from_seconds"`
	ToSec   float64           `json:"to_seconds"`
	Phase   steprecord.Phase  `json:"phase"`
	Group   *rollout.GroupSeq `json:"group,omitempty"` // that the trainer waited for
	Place   Place             `json:"place,omitempty"` // where that group was
	Text    string            `json:"text"`
}

// GroupWait is one group of the batch.
type GroupWait struct {
	Seq        rollout.GroupSeq `json:"seq"`
	ReadySec   float64          `json:"ready_seconds"`   // since the step was first claimed; negative: before it
	LaunchSec  float64          `json:"launch_seconds"`  // the same
	StartSec   float64          `json:"start_seconds"`   // its first request was sent
	LongestSec float64          `json:"longest_seconds"` // its longest game
	Wait       []WaitPart       `json:"wait_parts"`      // where it was while the trainer waited and it was not ready
}

// TimelineOf is the timeline of one step; false: it is not among the records, or not done.
func TimelineOf(in Input, no rollout.Step) (StepTimeline, bool) {
	in = in.around(no)
	h := newHistory(in.Records, pausesOf(&in), in.Spec.Steps)
	i := slices.IndexFunc(h.all, func(s step) bool { return s.no == no })
	if i < 0 {
		return StepTimeline{}, false
	}
	s := &h.all[i]
	v := s.view()
	out := StepTimeline{Run: in.Spec.Name, Step: no, AskedAt: v.FirstAskedAt, StepSec: s.wall, Groups: groupWaits(v),
		Losses: []Loss{}, Notes: []string{}}
	m := measure(in, h)
	out.UsualSec = m.usualOf(no)
	out.Spans = s.spans(out.Groups)
	t := timelineOf(&m.history, m.cycle != nil)
	out.Losses = t.ledger(i, i+1).Losses
	if s.prefill > 0 {
		out.Notes = append(out.Notes, "the wait is the prefill: it belongs to no step")
	}
	if len(v.Groups) == 0 {
		out.Notes = append(out.Notes, "the groups' timelines are not kept of this step: what it waited for is not known")
	}
	if slices.ContainsFunc(out.Spans, func(one Span) bool { return one.Place == PlaceModel || one.Place == PlaceEnv }) {
		out.Notes = append(out.Notes, "turns are not recorded one by one: within a game, the queue, the engines and the "+
			"environment have their shares of its time, in no order")
	}
	cycle := m.cycle
	if no < m.levels[len(m.levels)-1].From { // it is of the last level
		cycle = nil
	}
	out.Summary = out.summary(s, cycle)
	from, to := max(no-stepsAround, m.all[0].no), min(no+stepsAround, m.all[len(m.all)-1].no)
	out.Next = []string{fmt.Sprintf("millrace diagnose %s --from %d --to %d", out.Run, from, to)}
	return out, true
}

// stepsAround is how many steps before and after one are worth a look with it.
const stepsAround = 20

// around is the input with the steps around one: so many that its level shows.
func (in Input) around(no rollout.Step) Input {
	in.Older, in.First, in.Last = nil, nil, nil
	in.Records = slices.DeleteFunc(slices.Clone(in.Records), func(r steprecord.StepRecord) bool {
		return r.Step < no-lastSteps/4 || r.Step > no+lastSteps/4
	})
	return in
}

// usualOf is the mean of the level that a step belongs to.
func (m *measurements) usualOf(no rollout.Step) float64 {
	for _, l := range m.levels {
		if no <= l.To || l.To == m.levels[len(m.levels)-1].To {
			return l.StepSec
		}
	}
	return 0
}

// groupWaits is the batch's groups in the order in which they were ready.
func groupWaits(v *steprecord.ServiceView) []GroupWait {
	out := []GroupWait{}
	since := func(at time.Time) float64 { return units.SecondsBetween(v.FirstAskedAt, at) }
	for i := range v.Groups {
		g := &v.Groups[i]
		w := GroupWait{Seq: g.Seq, ReadySec: since(g.Times.ReadyAt), LaunchSec: since(g.Times.LaunchedAt),
			StartSec: since(g.Times.StartedAt), Wait: []WaitPart{}}
		if i := g.LongestEpisode(); i >= 0 {
			w.LongestSec = g.EpisodeSec[i]
		}
		if !v.GrantedAt.IsZero() && w.ReadySec > 0 {
			parts := placesIn(window{v.FirstAskedAt, v.GrantedAt}, g)
			w.Wait = append(w.Wait, parts.parts()...)
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b GroupWait) int { return cmp.Compare(a.ReadySec, b.ReadySec) })
	return out
}

// placesIn is where a group was in a window.
func placesIn(w window, g *steprecord.GroupView) byPlace {
	var parts byPlace
	t := g.Times
	parts.add(PlaceHandover, w.overlap(t.ReadyAt, w.to))
	parts.add(PlaceLaunch, w.overlap(w.from, t.LaunchedAt))
	parts.add(PlaceStart, w.overlap(t.LaunchedAt, t.StartedAt))
	playing := w.overlap(t.StartedAt, t.ReadyAt)
	for place, share := range playedShares(g) {
		parts[place] += share * playing
	}
	return parts
}

// spans is the wait, by the groups that were not ready, and then the trainer's phases in their order.
func (s *step) spans(groups []GroupWait) []Span {
	spans, at := s.waitSpans(groups)
	for p, phase := range steprecord.Phases() {
		if sec := s.phases[p]; phase != steprecord.PhaseWait && sec > 0 {
			spans = append(spans, Span{FromSec: at, ToSec: at + sec, Phase: phase, Text: PhaseText(phase)})
			at += sec
		}
	}
	return spans
}

// waitSpans cuts the wait where a group of the batch became ready. In each piece the trainer waited for the group that
// was ready next, and at last for the one that completed the batch.
func (s *step) waitSpans(groups []GroupWait) (spans []Span, at float64) {
	v := s.view()
	wait := max(s.wait(), s.prefill)
	seen := min(wait, max(0, units.SecondsBetween(v.FirstAskedAt, v.GrantedAt)))
	if v.GrantedAt.IsZero() {
		seen = 0
	}
	missing := slices.IndexFunc(groups, func(g GroupWait) bool { return g.ReadySec > 0 })
	for i := missing; i >= 0 && i < len(groups) && at < seen; i++ {
		g := groups[i]
		to := min(seen, g.ReadySec)
		if to <= at {
			continue
		}
		view := v.Groups[slices.IndexFunc(v.Groups, func(one steprecord.GroupView) bool { return one.Seq == g.Seq })]
		parts := placesIn(window{v.FirstAskedAt.Add(seconds(at)), v.FirstAskedAt.Add(seconds(to))}, &view)
		seq := g.Seq
		for place, sec := range parts {
			if sec <= 0 {
				continue
			}
			where := places()[place]
			spans = append(spans, Span{at, at + sec, steprecord.PhaseWait, &seq, where, fmt.Sprintf(
				"waiting for group %d, %s; %d of %d groups were ready", seq, PlaceText(where), i, len(groups))})
			at += sec
		}
	}
	if rest := wait - at; roundOff(rest, wait) > 0 {
		text, where := "waiting for a batch that was ready, in the handover to the trainer", PlaceHandover
		switch {
		case len(groups) == 0:
			text, where = "waiting for batches", PlaceUnknown
		case v.FirstAskedAt.IsZero():
			text, where = "waiting for a batch; when it was asked for is not recorded", PlaceUnknown
		}
		spans = append(spans, Span{FromSec: at, ToSec: wait, Phase: steprecord.PhaseWait, Place: where, Text: text})
	}
	return spans, wait
}

func (t *StepTimeline) summary(s *step, cycle *Oscillation) string {
	text := fmt.Sprintf("Step %d took %s; the steps around it take %s.", t.Step, units.Seconds(t.StepSec),
		units.Seconds(t.UsualSec))
	if cycle != nil {
		text = fmt.Sprintf("Step %d took %s; steps repeat themselves every %d, between %s and %s, %s on average.", t.Step,
			units.Seconds(t.StepSec), cycle.Period, units.Seconds(cycle.LowSec), units.Seconds(cycle.HighSec),
			units.Seconds(cycle.MeanSec))
	}
	if wait := max(s.wait(), s.prefill); wait > 0 && len(t.Groups) > 0 {
		last := t.Groups[len(t.Groups)-1]
		text += fmt.Sprintf(" The trainer waited %s; the last group of its batch was %d", units.Seconds(wait), last.Seq)
		var where []string
		for _, part := range last.Wait {
			if part.Sec >= 0.01*wait {
				where = append(where, fmt.Sprintf("%s %s", units.Seconds(part.Sec), PlaceText(part.Place)))
			}
		}
		if len(where) > 0 {
			text += ": " + strings.Join(where, ", ")
		}
		text += "."
	}
	said := map[string]bool{}
	for _, loss := range t.Losses {
		what := loss.short()
		sec := 0.0
		for _, other := range t.Losses { // what is a little more than usual in every step, and more so in this one
			if !other.starves() && other.short() == what {
				sec += other.Sec
			}
		}
		if loss.starves() || said[what] || sec < 0.01*t.StepSec {
			continue
		}
		said[what] = true
		text += fmt.Sprintf(" %s %s.", units.Seconds(sec), what)
	}
	return text
}

// short names the cause of a loss in one step.
func (l Loss) short() string {
	switch {
	case l.Name != "":
		return fmt.Sprintf("of it went into %q", l.Name)
	case l.Cause == CauseRestart || l.Cause == CauseBetweenSteps:
		return "passed before it, without a step"
	}
	if l.Cause == CausePaused {
		return fmt.Sprintf("more than usual went into %s: the run was paused, or its engines were not back yet",
			PhaseText(l.Phase))
	}
	return "more than at its best went into " + PhaseText(l.Phase)
}

var placeTexts = map[Place]string{
	PlaceLaunch: "not launched", PlaceStart: "launched, not started", PlaceQueue: "in the request queue",
	PlaceModel: "at engines", PlaceEnv: "in the environment", PlaceHandover: "in the handover to the trainer",
	PlaceOther: "between turns",
}

// PlaceText is where a group is, in a sentence: a Place in words.
func PlaceText(place Place) string { return cmp.Or(placeTexts[place], "not recorded") }
