package starvation

import (
	"time"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// timeline lays the last seconds before a batch was granted over the timeline of the group that completed it.
func timeline(r *steprecord.StepRecord, sec float64) []Span {
	v := &r.Service
	end := v.GrantedAt
	begin := end.Add(-time.Duration(sec * float64(time.Second)))
	var last *steprecord.GroupView
	for i := range v.Groups {
		if last == nil || v.Groups[i].Times.ReadyAt.After(last.Times.ReadyAt) {
			last = &v.Groups[i]
		}
	}
	var spans []Span
	counted := 0.0
	add := func(cause steprecord.StarvationCause, sec float64, at time.Time) {
		if sec > 0 {
			spans = append(spans, Span{Step: r.Step, Cause: cause, Sec: sec, At: at})
			counted += sec
		}
	}
	if last != nil && !last.Times.ReadyAt.IsZero() {
		t := last.Times
		within := func(from, to time.Time) float64 {
			if from.IsZero() || to.IsZero() {
				return 0
			}
			return max(0, units.Earlier(to, end).Sub(units.Later(from, begin)).Seconds())
		}
		add(steprecord.StarvedGated, within(begin, t.LaunchedAt), units.Earlier(t.LaunchedAt, end))
		add(steprecord.StarvedQueue, within(t.LaunchedAt, t.StartedAt), units.Earlier(t.StartedAt, end))
		played := within(t.StartedAt, t.ReadyAt)
		queue, env := playedShares(last)
		at := units.Earlier(t.ReadyAt, end)
		add(steprecord.StarvedQueue, played*queue, at)
		add(steprecord.StarvedEnv, played*env, at)
		add(steprecord.StarvedInference, played*(1-queue-env), at)
		add(steprecord.StarvedHandover, within(t.ReadyAt, end), end)
	}
	if rest := sec - counted; rest > least {
		add(steprecord.StarvedUnknown, rest, end)
	} else if rest != 0 && len(spans) > 0 {
		spans[len(spans)-1].Sec += rest // a rounding
	}
	return spans
}

// playedShares are the shares of a group's playing time that its longest game spent waiting for an engine and outside
// the engines. Turns are not recorded one by one.
func playedShares(g *steprecord.GroupView) (queue, env float64) {
	longest := g.LongestEpisode()
	at := func(values []float64) float64 {
		if longest >= 0 && longest < len(values) {
			return max(0, values[longest])
		}
		return 0
	}
	q, e := at(g.QueueSec), at(g.EnvSec)
	whole := q + e + at(g.ModelSec)
	if whole <= 0 {
		return 0, 0
	}
	return q / whole, e / whole
}
