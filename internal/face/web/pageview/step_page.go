package pageview

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Step is the page of one step: where each group of its batch was, and what the trainer waited for.
type Step struct {
	Run            string
	No             rollout.Step
	Before, After  string // neighbouring steps' pages
	Figures        []Figure
	Summary        string
	Pending        string // why the step is not explained
	From, To       time.Time
	Groups         []GroupStrip
	Completed      *rollout.GroupSeq // the group that completed the batch, if the trainer waited for it
	Trainer        template.HTML     // the trainer's own strip
	Legend         []Legend
	Spans          []SpanRow
	Notes          []string
	MissingRecords string
}

// GroupStrip is one group of the batch in a row.
type GroupStrip struct {
	Seq                           rollout.GroupSeq
	Href                          string
	Strip                         template.HTML
	Launch, Played, Ready, Reward string
	Last                          bool // it completed the batch
	ZeroVariance                  bool
}

// SpanRow is a stretch of the step.
type SpanRow struct {
	From, To, Sec, Text, Class string
	Group                      *rollout.GroupSeq
	Href                       string
}

// groupLegend is the parts of a group's row.
var groupLegend = []Legend{{"launch", "launched, not started"}, {"queue", "request queue"}, {"engine", "at engines"},
	{"environment", "environment"}, {"between", "between turns"}, {"ready", "ready"}, {"claimed", "claimed"},
	{"wait", "the trainer waits"}}

// StepOf makes the page of a step; the timeline is nil where there is none, and why is then told.
func StepOf(run rollout.RunName, r steprecord.StepRecord, t *diagnosis.StepTimeline, why string) Step {
	v := Step{Run: string(run.Plain()), No: r.Step, Legend: groupLegend, Pending: why,
		After: fmt.Sprintf("%d", r.Step+1)}
	if r.Step > 0 {
		v.Before = fmt.Sprintf("%d", r.Step-1)
	}
	s := r.Service
	v.From, v.To = s.FirstAskedAt, s.CompletedAt
	if v.To.IsZero() {
		v.To = s.GrantedAt
	}
	for i := range s.Groups {
		if at := s.Groups[i].Times.LaunchedAt; !at.IsZero() && at.Before(v.From) {
			v.From = at
		}
	}
	switch {
	case r.LostRecord:
		v.MissingRecords = "Redis came back without this step's record; the step stays completed."
	case len(s.Groups) == 0:
		v.MissingRecords = "The groups' timelines are not kept of this step."
	}
	v.Figures = stepFigures(&r)
	groups := slices.Clone(s.Groups)
	slices.SortStableFunc(groups, func(a, b steprecord.GroupView) int { return a.Times.ReadyAt.Compare(b.Times.ReadyAt) })
	if n := len(groups); n > 0 && groups[n-1].Times.ReadyAt.After(s.FirstAskedAt) {
		v.Completed = &groups[n-1].Seq
	}
	marks := v.marks(&r)
	for i := range groups {
		v.Groups = append(v.Groups, v.groupStrip(&groups[i], &r, marks))
	}
	if t != nil {
		v.addTimeline(t, s.FirstAskedAt, marks)
	}
	return v
}

func stepFigures(r *steprecord.StepRecord) []Figure {
	s := &r.Service
	state := "in progress"
	if r.Done {
		state = units.Seconds(r.StepSec())
	}
	figures := []Figure{{Name: "step time", Value: state, Tip: "without the prefill"}}
	if prefill := r.PrefillSec(); prefill > 0.05 {
		figures = append(figures, Figure{Name: "prefill", Value: units.Seconds(prefill),
			Tip: "the wait before step 0 while the buffer was filled"})
	}
	phases := r.StepPhases()
	for _, p := range steprecord.Phases() {
		if phases[p] >= 0.005*r.StepSec() && phases[p] > 0 {
			figures = append(figures, Figure{Name: phaseName(p), Value: units.Seconds(phases[p])})
		}
	}
	return append(figures,
		Figure{Name: "staleness", Value: units.Number(s.StalenessMean), Tip: "in policy versions",
			Note: fmt.Sprintf("max %d", s.StalenessMax)},
		Figure{Name: "trajectories", Value: Count(int64(s.Trajectories))},
		Figure{Name: "ready at the claim", Value: units.Number(s.ReadyDepth), Note: "batches"},
		Figure{Name: "equal rewards", Value: fmt.Sprint(s.ZeroVarianceGroups),
			Note: fmt.Sprintf("of %d groups", len(s.Groups))})
}

// marks are the moments that all rows share.
func (v *Step) marks(r *steprecord.StepRecord) []chart.Flag {
	var marks []chart.Flag
	for _, m := range []struct {
		at    time.Time
		class string
		text  string
	}{{r.Service.FirstAskedAt, "wait", "the trainer asked for the batch"},
		{r.Service.GrantedAt, "claimed", "the batch was given out"}} {
		if !m.at.IsZero() {
			marks = append(marks, chart.Flag{At: sec(m.at), Class: m.class, Tip: m.text + ", " + clock(m.at)})
		}
	}
	return marks
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.0 UTC") }

func (v *Step) groupStrip(g *steprecord.GroupView, r *steprecord.StepRecord, marks []chart.Flag) GroupStrip {
	t := g.Times
	row := GroupStrip{Seq: g.Seq, Href: fmt.Sprintf("../groups/%d", g.Seq), ZeroVariance: g.ZeroVariance,
		Last:   v.Completed != nil && *v.Completed == g.Seq,
		Launch: units.Seconds(t.StartedAt.Sub(t.LaunchedAt).Seconds()),
		Played: units.Seconds(t.ReadyAt.Sub(t.StartedAt).Seconds())}
	if !r.Service.FirstAskedAt.IsZero() {
		row.Ready = units.SignedSeconds(t.ReadyAt.Sub(r.Service.FirstAskedAt).Seconds())
	}
	if n := len(g.Rewards); n > 0 {
		row.Reward = fmt.Sprintf("%.3f", stat.Sum(slices.Values(g.Rewards))/float64(n))
	}
	strip := chart.Strip{From: sec(v.From), To: sec(v.To), Marks: marks,
		Description: fmt.Sprintf("group %d: launched %s, started %s later, played for %s", g.Seq, clock(t.LaunchedAt),
			row.Launch, row.Played)}
	add := func(from, to time.Time, class, text string) {
		strip.Segments = append(strip.Segments, chart.Segment{From: sec(from), To: sec(to), Class: class,
			Tip: fmt.Sprintf("%s: %s, from %s", text, units.Seconds(to.Sub(from).Seconds()), clock(from))})
	}
	add(t.LaunchedAt, t.StartedAt, "launch", "launched, not started")
	from := t.StartedAt
	for _, part := range playedParts(g) {
		to := from.Add(time.Duration(part.share * float64(t.ReadyAt.Sub(t.StartedAt))))
		add(from, to, part.class, part.text)
		from = to
	}
	if granted := r.Service.GrantedAt; !granted.IsZero() {
		add(t.ReadyAt, granted, "ready", "ready, not claimed")
		if done := r.Service.CompletedAt; !done.IsZero() {
			add(granted, done, "claimed", "claimed, being trained on")
		}
	}
	row.Strip = drawn(func(b *bytes.Buffer) error { return strip.WriteSVG(b) })
	return row
}

// playedPart is the share of a group's games that one thing took.
type playedPart struct {
	class, text string
	share       float64
}

// playedParts are shares of all games' time: turns are not recorded one by one, so that they stand in no order.
func playedParts(g *steprecord.GroupView) []playedPart {
	sum := func(all []float64) float64 { return stat.Sum(slices.Values(all)) }
	queue, model, env, total := sum(g.QueueSec), sum(g.ModelSec), sum(g.EnvSec), sum(g.EpisodeSec)
	if total = max(total, queue+model+env); total <= 0 {
		return []playedPart{{"between", "being played", 1}}
	}
	parts := []playedPart{{"queue", "in the request queue, together", queue / total},
		{"engine", "at engines, together", model / total}, {"environment", "in the environment, together", env / total}}
	return append(parts, playedPart{"between", "between turns, together", max(0, 1-(queue+model+env)/total)})
}

// addTimeline adds what the diagnosis says of the step second by second.
func (v *Step) addTimeline(t *diagnosis.StepTimeline, asked time.Time, marks []chart.Flag) {
	v.Summary, v.Notes = t.Summary, t.Notes
	strip := chart.Strip{From: sec(v.From), To: sec(v.To), Marks: marks, Description: "what the trainer did"}
	for _, s := range t.Spans {
		row := SpanRow{From: units.Seconds(s.FromSec), To: units.Seconds(s.ToSec), Sec: units.Seconds(s.ToSec - s.FromSec),
			Text: s.Text, Class: string(s.Phase), Group: s.Group}
		if s.Group != nil {
			row.Href = fmt.Sprintf("../groups/%d", *s.Group)
		}
		if s.ToSec-s.FromSec >= 0.0005*t.StepSec {
			v.Spans = append(v.Spans, row)
		}
		strip.Segments = append(strip.Segments, chart.Segment{From: sec(asked) + s.FromSec, To: sec(asked) + s.ToSec,
			Class: string(s.Phase), Tip: s.Text + ": " + row.Sec})
	}
	v.Trainer = drawn(func(b *bytes.Buffer) error { return strip.WriteSVG(b) })
}
