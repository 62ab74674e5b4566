package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

// Drop is one group that was not trained on.
type Drop struct {
	At   time.Time
	Code string
}

// stale is the code of groups that became too stale to be trained on.
const stale = "stale"

const (
	// lossShare is the share of groups lost from which on it is worth a finding.
	lossShare = 0.10
	// enoughDrops is how many drops tell a share from an accident.
	enoughDrops = 10
)

// losses counts the groups dropped during the present steps by their code, the most frequent first.
func (q *inquiry) losses() (counts []rollout.LengthCount, all int64) {
	if len(q.now) == 0 {
		return nil, 0
	}
	from, _ := q.ledger.steps[q.now[0]].span()
	_, to := q.ledger.steps[q.now[len(q.now)-1]].span()
	byCode := map[string]int64{}
	for _, d := range q.in.Drops {
		if !d.At.Before(from) && !d.At.After(to) {
			byCode[d.Code]++
			all++
		}
	}
	for code, n := range byCode {
		counts = append(counts, rollout.LengthCount{Code: code, Groups: n})
	}
	slices.SortFunc(counts, func(a, b rollout.LengthCount) int {
		if a.Groups != b.Groups {
			return int(b.Groups - a.Groups)
		}
		return strings.Compare(a.Code, b.Code)
	})
	return counts, all
}

// lossText names the reasons for drops: ": 24 stale, 2 cancelled"; empty when none is recorded.
func (q *inquiry) lossText() string {
	counts, _ := q.losses()
	var parts []string
	for _, c := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", c.Groups, c.Code))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// staleLosses is the engines working for groups that become too stale to be trained on.
func (q *inquiry) staleLosses(*Report) *Finding {
	counts, all := q.losses()
	lost := int64(0)
	for _, c := range counts {
		if c.Code == stale {
			lost = c.Groups
		}
	}
	trained := int64(q.ledger.mean(q.now, func(s *step) float64 { return float64(len(s.view().Groups)) }) * float64(len(q.now)))
	if lost < enoughDrops || float64(lost) < lossShare*float64(all+trained) {
		return nil
	}
	share := float64(lost) / float64(all+trained)
	first, last := q.ledger.steps[q.now[0]].no, q.ledger.steps[q.now[len(q.now)-1]].no
	f := &Finding{Cause: CauseStaleDrops, Verdict: VerdictWarning, Since: &first}
	f.Text = fmt.Sprintf("%s of the groups that left in steps %d to %d were dropped as stale, and what the engines did for them is lost", units.Percent(share), first, last)
	f.Evidence = []Evidence{{fmt.Sprintf("%d groups trained on; %d dropped%s", trained, all, q.lossText()), Measured}}
	if saved := q.savedWithout(lost, trained); q.starving() && saved >= lossShare*q.regime.StepSec {
		f.Verdict = VerdictProblem
		f.Evidence = append(f.Evidence, Evidence{fmt.Sprintf("without them a step would be %s shorter", units.Seconds(saved)), Modelled})
	}
	for _, b := range Biases(q.in.Departures) {
		if b.Code == stale {
			f.Text += ", and it is the longer games that are lost"
			f.Evidence = append(f.Evidence, Evidence{b.String(), Measured})
		}
	}
	if policy := q.in.Spec.Buffer.OnStale; policy == rollout.WaitStale || policy == rollout.KeepStale {
		f.Verdict = VerdictHealed
		f.Text += fmt.Sprintf(". With buffer.on_stale: %s nothing more is dropped for that.", policy)
		return f
	}
	f.Text += fmt.Sprintf(". What may help: buffer.on_stale=wait, a larger buffer.max_staleness (%d now), a smaller buffer.depth (%d now), shorter games.",
		q.in.Spec.Buffer.MaxStaleness, q.setDepth())
	return f
}

// savedWithout is by how much a step would be shorter, by the model, if the fleet had not played the lost groups.
func (q *inquiry) savedWithout(lost, trained int64) float64 {
	if q.regime.P == nil || trained == 0 {
		return 0
	}
	return q.butFor(q.regime.P.Sec / (1 + float64(lost)/float64(trained)))
}

// staleWait is the trainer waiting for games that would become too stale, though a batch's worth of groups is
// ready. Nothing else keeps a batch that is complete: more ready groups than it takes are the mark of it.
func (q *inquiry) staleWait(_ *Report, e effect) (Cause, bool) {
	if q.in.Spec.Buffer.OnStale != rollout.WaitStale {
		return Cause{}, false
	}
	held := 0
	sec := q.ledger.mean(e.after, func(s *step) float64 {
		if v := s.view(); v.GroupsPerStep == 0 || v.AtClaim.Ready <= int64(v.GroupsPerStep) || s.wait() <= starvedShare*s.compute() {
			return 0
		}
		held++
		return s.wait()
	})
	return Cause{CauseStaleWait, e.weigh(sec), fmt.Sprintf(
		"%d of %d batches were held for games that would have become too stale, though enough groups were ready (buffer.on_stale: wait, max_staleness %d)",
		held, len(e.after), q.in.Spec.Buffer.MaxStaleness), Measured}, true
}
