package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

const (
	// lossShare is the share of groups lost from which on it is worth a finding.
	lossShare = 0.10
	// enoughDrops is how many drops tell a share from an accident.
	enoughDrops = 10
)

// dropCounts is the groups dropped during the present steps.
type dropCounts struct {
	byCode map[rollout.Code]int64
	all    int64
}

func dropsOf(m *measurements) dropCounts { return dropsIn(m, m.present) }

// dropsIn is the groups dropped from the first of some steps to the last.
func dropsIn(m *measurements, steps []int) dropCounts {
	d := dropCounts{byCode: map[rollout.Code]int64{}}
	if len(steps) == 0 {
		return d
	}
	from, _ := m.steps[steps[0]].span()
	_, to := m.steps[steps[len(steps)-1]].span()
	for _, drop := range m.in.Drops {
		if !drop.At.Before(from) && !drop.At.After(to) {
			d.byCode[drop.Code]++
			d.all++
		}
	}
	return d
}

// text names the reasons, the most frequent first: ": 24 stale, 2 cancelled"; empty when no drop is recorded.
func (d dropCounts) text() string {
	codes := slices.SortedFunc(maps.Keys(d.byCode), func(a, b rollout.Code) int {
		return cmp.Or(cmp.Compare(d.byCode[b], d.byCode[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, code := range codes {
		parts = append(parts, fmt.Sprintf("%d %s", d.byCode[code], code))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// staleLosses is the engines working for groups that become too stale to be trained on.
func (p *predictions) staleLosses(m *measurements, reg *regime) *Finding {
	drops := dropsOf(m)
	lost := drops.byCode[rollout.CodeStale]
	perStep := m.mean(m.present, func(s *step) float64 { return float64(len(s.view().Groups)) })
	trained := int64(perStep * float64(len(m.present)))
	if lost < enoughDrops || float64(lost) < lossShare*float64(drops.all+trained) {
		return nil
	}
	share := float64(lost) / float64(drops.all+trained)
	first, last := m.steps[m.present[0]].no, m.steps[m.present[len(m.present)-1]].no
	f := &Finding{Cause: CauseStaleDrops, Verdict: VerdictWarning, Since: &first}
	f.Text = fmt.Sprintf("%s of the groups that left in steps %d to %d were dropped as stale, "+
		"and what the engines did for them is lost", units.Percent(share), first, last)
	counts := fmt.Sprintf("%d groups trained on; %d dropped%s", trained, drops.all, drops.text())
	f.Evidence = []Evidence{{counts, Measured}}
	if saved := p.savedWithout(reg, lost, trained); m.starving() && saved >= lossShare*reg.StepSec {
		f.Verdict = VerdictProblem
		text := fmt.Sprintf("without them a step would be %s shorter", units.Seconds(saved))
		f.Evidence = append(f.Evidence, Evidence{text, Modelled})
	}
	for _, b := range Biases(m.in.Departures) {
		if b.Code == rollout.CodeStale {
			f.Text += ", and it is the longer games that are lost"
			f.Evidence = append(f.Evidence, Evidence{b.String(), Measured})
		}
	}
	buffer := m.in.Spec.Buffer
	if buffer.OnStale == runspec.WaitStale || buffer.OnStale == runspec.KeepStale {
		f.Verdict = VerdictHealed
		f.Text += fmt.Sprintf(". With buffer.on_stale: %s nothing more is dropped for that.", buffer.OnStale)
		return f
	}
	f.Text += fmt.Sprintf(". What may help: buffer.on_stale=wait, a larger buffer.max_staleness (%d now), "+
		"a smaller buffer.depth (%d now), shorter games.", buffer.MaxStaleness, m.setDepth())
	return f
}

// savedWithout is by how much a step would be shorter if the fleet had not played the lost groups.
func (p *predictions) savedWithout(reg *regime, lost, trained int64) float64 {
	if trained == 0 {
		return 0
	}
	return p.gain(reg, change{games: float64(trained) / float64(trained+lost)})
}
