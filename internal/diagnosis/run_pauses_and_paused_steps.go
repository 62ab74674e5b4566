package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
)

// pause is a time in which the run was paused. Where its fleet was given back meanwhile, it lasts until as many engines
// serve again.
type pause struct {
	from, to time.Time // to is zero while it lasts
}

// pausesOf is a run's pauses, in order of time.
func pausesOf(in *Input) []pause {
	var pauses []pause
	for _, ev := range in.Events {
		if ev.Kind != EventConfig {
			continue
		}
		last := len(pauses) - 1
		lasts := last >= 0 && pauses[last].to.IsZero()
		for part := range strings.SplitSeq(ev.Text, "; ") {
			switch verb, _, _ := strings.Cut(part, " "); {
			case verb == "pause" && !lasts:
				pauses = append(pauses, pause{from: ev.At})
			case verb == "resume" && lasts:
				pauses[last].to = servesAgain(in, pauses[last].from, ev.At)
			}
		}
	}
	return pauses
}

// servesAgain is when as many engines as had been given back during a pause were ready again.
func servesAgain(in *Input, from, resumed time.Time) time.Time {
	gone, bought := 0, 0
	for _, a := range in.ScalingActs {
		switch {
		case a.At.Before(from) || a.At.After(resumed.Add(drainsWithin)):
		case a.To < a.From && a.At.Before(resumed):
			gone += a.From - a.To
		case a.To > a.From:
			bought += a.To - a.From
		}
	}
	end := resumed
	for missing := min(gone, bought); missing > 0; missing-- {
		at := slices.IndexFunc(in.Events, func(ev Event) bool { return ev.Kind == EventEngineJoined && ev.At.After(end) })
		if at < 0 {
			break
		}
		end = in.Events[at].At
	}
	return end
}

// pausedIn reports whether a step, or what was played for it, fell into a pause for more than a little of its time.
func pausedIn(pauses []pause, s *step) bool {
	v := s.view()
	during := window{v.FirstAskedAt, v.CompletedAt}
	if played := v.GrantedAt.Add(-seconds(v.Fleet.WindowSec)); !v.GrantedAt.IsZero() && played.Before(during.from) {
		during.from = played
	}
	if during.from.IsZero() || during.to.IsZero() {
		return false
	}
	paused := 0.0
	for _, p := range pauses {
		to := p.to
		if to.IsZero() {
			to = during.to
		}
		paused += during.overlap(p.from, to)
	}
	return paused > rareShare*units.SecondsBetween(during.from, during.to)
}

// pauseNotes says that the run is paused now, if it is.
func pauseNotes(m *measurements) []string {
	if n := len(m.pauses); n > 0 && m.pauses[n-1].to.IsZero() && !m.in.Over {
		return []string{fmt.Sprintf("the run is paused since step %d, and nothing is launched: millrace run resume %s",
			m.stepDuring(m.pauses[n-1].from), m.in.Spec.Name)}
	}
	return []string{}
}
