package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/run/alarm/noworker"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Trouble is a condition of the deployment that needs somebody: one line for a cause, since when, and what to do.
type Trouble struct {
	Level  diagnosis.Severity `json:"level" doc:"stuck: something does not go on by itself; slow: it goes on, at a loss or a risk that is worth a person's time; note: to know"`
	What   string             `json:"what"`
	Since  time.Time          `json:"since,omitzero" doc:"Absent: not known"`
	Advice string             `json:"advice,omitempty" doc:"What to do about it"`
	Run    rollout.RunName    `json:"run,omitempty" doc:"Whose problem it is, if it is one run's"`
}

// unseen is how long a run that ended badly is listed, unless somebody deletes or resumes it before.
const unseen = 24 * time.Hour

// latestEnded is how many runs that are over are looked through for ends that nobody may have seen.
const latestEnded = 64

// aged says of each condition how long it has lasted; alarms of runs say so themselves.
func aged(now time.Time, troubles []Trouble) []Trouble {
	for i, t := range troubles {
		if !t.Since.IsZero() {
			troubles[i].What += fmt.Sprintf(" (for %s)", noworker.Span(now.Sub(t.Since)))
		}
	}
	return troubles
}

// urgency is how grave each level is, the gravest first.
var urgency = map[diagnosis.Severity]int{diagnosis.SeverityStuck: 0, diagnosis.SeveritySlow: 1,
	diagnosis.SeverityNote: 2}

// Urgent reports whether somebody should look now.
func (t *Trouble) Urgent() bool { return urgency[t.Level] < urgency[diagnosis.SeverityNote] }

// gravestFirst orders what is wrong, and what has no level yet is at a loss or a risk.
func gravestFirst(troubles []Trouble) []Trouble {
	for i := range troubles {
		troubles[i].Level = cmp.Or(troubles[i].Level, diagnosis.SeveritySlow)
	}
	slices.SortStableFunc(troubles, func(a, b Trouble) int { return urgency[a.Level] - urgency[b.Level] })
	return troubles
}

// badEnds lists the runs that failed or were lost within a day.
func (s *Server) badEnds(ctx context.Context) ([]Trouble, error) {
	runs, _, err := s.deps.Store.EndedRuns(ctx, "", latestEnded, covered(ctx))
	if err != nil {
		return nil, err
	}
	var found []Trouble
	for _, run := range s.visible(ctx, runs) {
		t := Trouble{Level: diagnosis.SeverityStuck, Run: run.Spec.Name, Since: run.EndedAt,
			What: fmt.Sprintf("%s at step %d", run.State, run.NextStep)}
		if run.Reason != "" {
			t.What += ": " + run.Reason
		}
		name := run.Spec.Name.Plain()
		switch {
		case !run.EndedAt.IsZero() && s.deps.Now().Sub(run.EndedAt) > unseen:
			continue
		case run.State == runstatus.RunLost:
			t.Advice = fmt.Sprintf("go on where it was: millrace run resume %s; or: millrace run delete %s", name, name)
		case run.State == runstatus.RunFailed:
			t.Advice = fmt.Sprintf("see: millrace run show %s; once seen: millrace run delete %s, or it is listed for a day",
				name, name)
		default:
			continue
		}
		found = append(found, t)
	}
	return found, nil
}

// engineTroubles lists what is wrong with engines, those with the same cause in one line.
func engineTroubles(engines []enginestate.Engine) []Trouble {
	type cause struct{ what, advice string }
	var order []cause
	ids, since := map[cause][]string{}, map[cause]time.Time{}
	for _, e := range engines {
		c := cause{what: string(e.State), advice: "restart it, it joins again by itself; or: millrace engine remove ENGINE"}
		switch {
		case e.State == enginestate.EngineLost, e.State == enginestate.EngineQuarantined:
			if text := hidden(e.Reason, e.URL); text != "" {
				c.what += ": " + text
			}
		case e.NoAdapters != "":
			c = cause{"no run's adapter can be served: " + e.NoAdapters, "then start it again; it joins by itself"}
		case len(e.Troubles) > 0 && len(e.Adapters) == 0 && e.State == enginestate.EngineReady:
			c = cause{"serves no run's adapter: " + e.Reason, "see: millrace engine list"}
		default:
			continue
		}
		if !slices.Contains(order, c) {
			order = append(order, c)
		}
		ids[c] = append(ids[c], string(e.ID))
		if at := since[c]; at.IsZero() || e.Since.Before(at) {
			since[c] = e.Since
		}
	}
	var found []Trouble
	for _, c := range order {
		found = append(found, Trouble{What: fmt.Sprintf("engine %s: %s", units.Few(ids[c], 4), c.what), Since: since[c],
			Advice: c.advice})
	}
	return found
}

// hidden takes an engine's own address out of a reason, so that the same cause at several engines is one.
func hidden(reason, url string) string {
	reason = strings.ReplaceAll(reason, url, "its address")
	return strings.ReplaceAll(reason, strings.TrimPrefix(url, "http://"), "its address")
}

// scalingTroubles lists what keeps a scaled fleet from being as large as it should be.
func scalingTroubles(view supply.View) []Trouble {
	var found []Trouble
	if view.Trouble != "" {
		found = append(found, Trouble{What: fmt.Sprintf("provider %s: %s", view.Provider, view.Trouble),
			Since: view.TroubleSince, Advice: "see: millrace engine scaling"})
	}
	if strings.Contains(view.Why, "the budget of") {
		found = append(found, Trouble{What: fmt.Sprintf("the fleet should be larger than %s: %s",
			units.Counted(view.Wanted, "engine"), view.Why),
			Advice: "raise scaling.budget_per_hour, or leave it: the runs go on more slowly"})
	}
	return found
}

// storageTroubles lists settings of Redis that lose what was written.
func (s *Server) storageTroubles() []Trouble {
	var found []Trouble
	for _, text := range s.deps.Storage() {
		found = append(found, Trouble{What: text, Advice: "change its configuration: docs/deploy.md says how"})
	}
	return found
}

// sinkTroubles lists the problems of a sink.
func sinkTroubles(sink telemetry.SinkStatus) []Trouble {
	var problems []Trouble
	switch sink.State {
	case telemetry.SinkOK:
	case telemetry.SinkStopped:
		if sink.Backlog > 0 || sink.Advice != "" {
			problems = append(problems, Trouble{What: fmt.Sprintf("events are not delivered to %s: %s", sink.Sink, sink.Reason),
				Since: sink.Since, Advice: sink.Advice})
		}
	default:
		level := diagnosis.SeveritySlow
		if sink.Advice == "" { // nobody can do anything
			level = diagnosis.SeverityNote
		}
		problems = append(problems, Trouble{Level: level, What: fmt.Sprintf("events are not delivered to %s (%s): "+
			"%s", sink.Sink, sink.State,
			sink.Reason), Since: sink.Since,
			Advice: cmp.Or(sink.Advice, "nothing yet: events are kept, and delivered when it answers")})
	}
	if sink.DeadLetters > 0 {
		problems = append(problems, Trouble{
			What: fmt.Sprintf("%s refused %d events, which are kept; the last: %s", sink.Sink, sink.DeadLetters,
				sink.LastRefusal),
			Advice: "see why: millrace axiom dead-letters list; then replay or drop them"})
	}
	if sink.LostFacts > 0 {
		problems = append(problems, Trouble{Level: diagnosis.SeverityNote,
			What: fmt.Sprintf("%d facts were lost before they were delivered to %s: the store keeps no more",
				sink.LostFacts, sink.Sink), Advice: "what is left is delivered; diagnosis reads the store " +
				"and needs no sink"})
	}
	return problems
}
