package buffermodel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Why a step cannot be claimed.
var (
	ErrNotReady = errors.New("too few groups are ready; ask again")
	ErrRunOver  = errors.New("the run gives out no more batches")
)

// Batch is what a claim gives: the step as the service sees it, without what happens later, and its groups in the order
// of their launch.
type Batch struct {
	View   steprecord.ServiceView
	Groups []*Ready
}

// Claim grants the next step's batch, at most one ahead of the first step that is not completed.
func (b *Buffer) Claim(step rollout.Step, now time.Time) (*Batch, error) {
	switch k := int(step); {
	case k >= b.steps || b.over:
		return nil, ErrRunOver
	case k != b.granted || k > b.next+1:
		return nil, fmt.Errorf("step %d cannot be claimed: %d were, and %d completed", k, b.granted, b.next)
	}
	if b.asked.IsZero() {
		b.asked = now
	}
	b.sweep()
	size := b.limits.GroupsPerStep
	if len(b.ready.all) < b.needed() {
		return nil, ErrNotReady
	}
	of := make([]*group, len(b.ready.all))
	for i, seq := range b.ready.all {
		of[i] = b.groups[seq]
	}
	if b.limits.Order == runspec.FinishOrder {
		slices.SortStableFunc(of, func(x, y *group) int { return cmp.Compare(x.nth, y.nth) })
	}
	if b.limits.OnStale == runspec.WaitStale {
		if b.awaited(of) > 0 {
			return nil, ErrNotReady
		}
		slices.SortStableFunc(of, func(x, y *group) int { return cmp.Compare(x.Min, y.Min) })
	}
	of = of[:size]
	slices.SortFunc(of, func(x, y *group) int { return cmp.Compare(x.Seq, y.Seq) })
	return b.grant(of, now), nil
}

// grant takes a batch out.
func (b *Buffer) grant(of []*group, now time.Time) *Batch {
	batch := &Batch{View: steprecord.ServiceView{
		FirstAskedAt: b.asked, GrantedAt: now, AtClaim: b.Counts(),
		Depth: b.limits.Depth, GroupsPerStep: b.limits.GroupsPerStep, Version: b.version,
		ReadyDepth: float64(len(b.ready.all)) / float64(b.limits.GroupsPerStep),
		Groups:     make([]steprecord.GroupView, 0, len(of)),
	}}
	v := &batch.View
	for key, n := range b.departures {
		if key.code != steprecord.Trained && *n > 0 {
			if v.DroppedSoFar == nil {
				v.DroppedSoFar = map[rollout.Code]int64{}
			}
			v.DroppedSoFar[key.code] += *n
		}
	}
	var behind, flying int64
	seqs := make([]rollout.GroupSeq, len(of))
	for i, g := range of {
		seqs[i] = g.Seq
		stale := rollout.Staleness(g.Min, b.version)
		if i == 0 {
			v.StalenessMin, v.StalenessMax = stale, stale
		}
		v.StalenessMin, v.StalenessMax = min(v.StalenessMin, stale), max(v.StalenessMax, stale)
		behind += stale
		flying += rollout.Staleness(g.Min, g.at)
		v.Trajectories += g.Trajectories
		if g.ZeroVariance {
			v.ZeroVarianceGroups++
		}
		if g.View != nil {
			v.Groups = append(v.Groups, *g.View)
		}
		batch.Groups = append(batch.Groups, &g.Ready)
		b.move(g, claimed)
	}
	n := float64(len(of))
	v.StalenessMean = float64(behind) / n
	v.StalenessInFlightMean, v.StalenessInBufferMean = float64(flying)/n, float64(behind-flying)/n
	b.batches = append(b.batches, seqs)
	b.granted++
	b.asked = time.Time{}
	return batch
}

// needed is how many groups must be ready: for the first batch as many as the prefill, unless no more will come.
func (b *Buffer) needed() int {
	size := b.limits.GroupsPerStep
	playing := len(b.queued.all) + len(b.inFlight.all)
	if b.granted > 0 || playing == 0 && !b.room() {
		return size
	}
	return max(size, b.limits.First(b.steps))
}

// room reports whether the run may launch more than a batch needs: a group of the mean size would fit.
func (b *Buffer) room() bool {
	mean := b.meanBytes()
	return b.limits.MaxBytes == 0 || mean > 0 && b.bytes+mean <= b.limits.MaxBytes
}

func (b *Buffer) meanBytes() int64 {
	if b.commits == 0 {
		return 0
	}
	return b.commitBytes / b.commits
}

// awaited is how many groups in play the batch must wait for, so that none becomes too stale: of those with j versions
// to spare or fewer, no more may stay behind than j batches can take. It never waits for more than fit into the batch.
func (b *Buffer) awaited(readyGroups []*group) int {
	late := int64(b.version) + int64(b.granted-b.next) - b.limits.MaxStaleness
	spare := func(v rollout.PolicyVersion) int64 { return max(0, int64(v)-late) }
	here, all := map[int64]int{}, map[int64]int{}
	for _, g := range readyGroups {
		here[spare(g.Min)]++
		all[spare(g.Min)]++
	}
	for _, playing := range [][]rollout.GroupSeq{b.queued.all, b.inFlight.all} {
		for _, seq := range playing {
			all[spare(b.groups[seq].from)]++
		}
	}
	spares := make([]int64, 0, len(all))
	for j := range all {
		spares = append(spares, j)
	}
	slices.Sort(spares)
	missing, ready, total := 0, 0, 0
	size := b.limits.GroupsPerStep
	for _, j := range spares {
		ready, total = ready+here[j], total+all[j]
		missing = max(missing, min(size, total-int(j)*size)-ready)
	}
	return missing
}
