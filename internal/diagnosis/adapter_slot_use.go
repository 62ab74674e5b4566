package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// adapterUse is how many adapters the run's games used at once, and how many an engine has in a batch. Requests for
// others wait for one of these to end: in line, where the dispatcher keeps each adapter to its own engines, or inside
// the engines.
type adapterUse struct {
	used  float64
	slots float64 // 0: not known
}

// short reports whether games use more adapters at once than a batch holds.
func (u adapterUse) short() bool { return u.slots > 0 && u.used > (1+moved)*u.slots }

func (u adapterUse) text() string {
	return fmt.Sprintf("the games use %s adapters at once, and --max-loras of the engines is %s", units.Number(u.used),
		units.Number(u.slots))
}

// adaptersOver is the adapters that the groups of some steps used at once, on the mean of the time in which any was
// played, and the fixed ones. The base model is none.
func (m *measurements) adaptersOver(at []int) adapterUse {
	u := adapterUse{slots: float64(m.in.AdapterSlots)}
	type end struct {
		at      time.Time
		version rollout.PolicyVersion
		by      int
	}
	var ends []end
	for _, i := range at {
		for _, g := range m.steps[i].view().Groups {
			if from, to := g.Times.StartedAt, g.Times.ReadyAt; !from.IsZero() && to.After(from) {
				ends = append(ends, end{from, g.MinVersion, 1}, end{to, g.MinVersion, -1})
			}
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(b.by, a.by)) })
	playing, used, sec, sum := map[rollout.PolicyVersion]int{}, 0, 0.0, 0.0
	for i, e := range ends {
		if i > 0 && len(playing) > 0 {
			span := units.SecondsBetween(ends[i-1].at, e.at)
			sec, sum = sec+span, sum+span*float64(used)
		}
		was := playing[e.version]
		if playing[e.version] += e.by; playing[e.version] == 0 {
			delete(playing, e.version)
		}
		if e.version > 0 && (was == 0 || was+e.by == 0) {
			used += e.by
		}
	}
	u.used += float64(len(m.in.Spec.FixedAdapters()))
	if sec > 0 {
		u.used += sum / sec
	}
	return u
}

// shortOfAdapters reports whether requests wait, beside free slots, for engines to have their adapters in a batch.
func (reg *regime) shortOfAdapters(m *measurements) bool {
	return reg.adapters.short() && reg.slots.share < fullSlots && !reg.memory.short() &&
		(reg.slots.queueing() || m.waitingInside(m.present) >= kvHeldBack)
}

// waitingInside is the share of the engines' requests that wait inside them.
func (m *measurements) waitingInside(at []int) float64 {
	waiting, inFlight := 0.0, 0.0
	for _, i := range at {
		for _, e := range m.steps[i].view().Engines {
			waiting, inFlight = waiting+e.Waiting*e.WindowSec, inFlight+e.InFlight*e.WindowSec
		}
	}
	if inFlight == 0 {
		return 0
	}
	return waiting / inFlight
}

// adapterSlots is engines whose batches hold fewer adapters than games use.
func adapterSlots(m *measurements, reg *regime, _ effect) (Cause, bool) {
	one := decided(CauseAdapterSlots, IsCause, reg.adapters.text(), Measured)
	one.Evidence, one.Fix = []Evidence{{one.Text, Measured}}, adapterSlotsFix(m)
	return one, reg.Resource == AdapterSlots
}

// adapterSlotsFix is room for all adapters that the run may use.
func adapterSlotsFix(m *measurements) *Fix {
	return &Fix{Text: fmt.Sprintf("start the engines with --max-loras %d, as many adapters as this run may use at once "+
		"(buffer.max_staleness + 2, and its fixed policies)", m.in.Spec.Slots())}
}
