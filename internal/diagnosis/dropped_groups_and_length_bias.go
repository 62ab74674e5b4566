package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
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

const (
	// enoughGroups is how many groups a comparison of lengths needs on either side.
	enoughGroups = 20
	// farApart is the least difference of mean lengths that is worth a word, in doublings: a quarter longer.
	farApart = 0.32
	// beyondChance is how many standard errors a difference must be away from none.
	beyondChance = 3
)

// Bias is groups that left for one reason having had longer or shorter games than those trained on.
type Bias struct {
	Code          rollout.Code `json:"code"`
	Groups        int64        `json:"groups"`         // that were played at all, and left for this reason
	Phases        float64      `json:"phases"`         // mean length of their games, as closely as the buckets tell
	TrainedPhases float64      `json:"trained_phases"` // and of those trained on
}

// Biases compares the lengths of dropped groups with those of trained ones, for each reason with enough groups. An
// abandoned game counts as far as it came, so its true length may be longer, but not shorter. So "longer" is reported
// for every reason, and "shorter" only if all games were played to their end.
func Biases(departures []steprecord.LengthCount) []Bias {
	biases := []Bias{}
	at := slices.IndexFunc(departures, func(d steprecord.LengthCount) bool { return d.Code == steprecord.Trained })
	if at < 0 {
		return biases
	}
	trained := lengthsOf(departures[at])
	for _, d := range departures {
		lost := lengthsOf(d)
		if d.Code == steprecord.Trained || trained.groups < enoughGroups || lost.groups < enoughGroups {
			continue
		}
		apart := lost.mean - trained.mean
		chance := math.Sqrt(lost.variance/lost.groups + trained.variance/trained.groups)
		if math.Abs(apart) < farApart || math.Abs(apart) < beyondChance*chance || apart < 0 &&
			d.Code != rollout.CodeZeroVariance {
			continue
		}
		biases = append(biases, Bias{d.Code, int64(lost.groups), lost.phases, trained.phases})
	}
	return biases
}

// String is the bias in a sentence.
func (b Bias) String() string {
	how, leans := "longer", "short"
	if b.Phases < b.TrainedPhases {
		how, leans = "shorter", "long"
	}
	return fmt.Sprintf("groups dropped as %s have %s games than those trained on, about %s phases against %s: "+
		"what is learnt from leans towards %s games",
		b.Code, how, units.Number(b.Phases), units.Number(b.TrainedPhases), leans)
}

// lengths is the lengths of some groups' games. Mean and variance are of the bucket: of the length's logarithm.
type lengths struct {
	groups, mean, variance float64
	phases                 float64
}

// lengthsOf leaves out groups that were never played.
func lengthsOf(d steprecord.LengthCount) lengths {
	var l lengths
	squares := 0.0
	for bucket, n := range d.ByLength {
		if bucket == 0 {
			continue
		}
		from, to := steprecord.LengthBucket(bucket)
		groups, middle := float64(n), float64(bucket)
		l.groups += groups
		l.mean += groups * middle
		squares += groups * middle * middle
		l.phases += groups * float64(from+to) / 2
	}
	if l.groups == 0 {
		return l
	}
	l.mean /= l.groups
	l.phases /= l.groups
	l.variance = max(0, squares/l.groups-l.mean*l.mean)
	return l
}
