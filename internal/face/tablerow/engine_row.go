package tablerow

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/units"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// EngineRow is the cells of an engine.
type EngineRow struct {
	ID, State, Running, Waiting, Limit string
	Slots                              string // the share of its limit in use
	QueueSec, InputTPS, OutputTPS      string
	Cached, KV, Adapters               string
	Proven                             string // how many of its adapters with probes it has proven
	UsageError                         string // how much more it counted than its answers account for
	Reason                             string // why it is in its state, or gets less than its limit
	Grade                              Grade
}

// RowOfEngine makes the cells of an engine.
func RowOfEngine(e enginestate.Engine, now time.Time) EngineRow {
	l := e.Load
	row := EngineRow{
		ID: string(e.ID), State: string(e.State), Running: whole(l.Running), Waiting: whole(l.Waiting),
		Limit: fmt.Sprint(e.Limit()), Slots: units.Percent(SlotShare(e)), QueueSec: Seconds(l.QueueSec),
		InputTPS: whole(l.InputTPS), OutputTPS: whole(l.OutputTPS), Cached: units.Percent(l.PrefixHitShare),
		KV: units.Percent(l.KVUsage), Adapters: fmt.Sprint(len(e.Adapters)), UsageError: usageError(l),
		Proven: "-", Reason: engineReason(e, now), Grade: EngineGrade(e.State),
	}
	if len(e.Proofs) > 0 {
		row.Proven = fmt.Sprintf("%d/%d", e.Proved(enginestate.Proven), len(e.Proofs))
	}
	if e.AdapterSlots > 0 {
		row.Adapters = fmt.Sprintf("%d/%d", len(e.Adapters), e.AdapterSlots)
	}
	return row
}

// SlotShare is the share of an engine's request limit that is in use.
func SlotShare(e enginestate.Engine) float64 {
	return units.Share(e.Load.Running+e.Load.Waiting, float64(e.Limit()))
}

func engineReason(e enginestate.Engine, now time.Time) string {
	var all []string
	if e.Reason != "" {
		all = append(all, e.Reason)
	}
	if e.Slow != "" {
		all = append(all, "slow: "+e.Slow)
	}
	for _, c := range e.Closures {
		all = append(all, c.Text(now))
	}
	return strings.Join(all, "; ")
}

// usageError is the larger of an engine's two usage errors, with its sign.
func usageError(l enginestate.EngineLoad) string {
	idle := l.Running+l.Waiting+l.InputTPS+l.OutputTPS == 0 // a health check is much beside nothing
	if l.UsageWindowSec == 0 || idle {
		return "-"
	}
	larger := l.UsageInputError
	if math.Abs(l.UsageOutputError) > math.Abs(larger) {
		larger = l.UsageOutputError
	}
	if math.Abs(larger) < 0.0005 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", 100*larger)
}

// Fleet is how many engines scaling wants, and how many there are.
func Fleet(v *supply.View) string {
	text := fmt.Sprintf("%d of %s", v.Actual.Ready, units.Counted(v.Wanted, "wanted engine"))
	if v.Actual.Starting > 0 {
		text += fmt.Sprintf(", %d starting", v.Actual.Starting)
	}
	if v.Actual.Draining > 0 {
		text += fmt.Sprintf(", %d draining", v.Actual.Draining)
	}
	return text
}
