package buffer_test

import (
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// model is the buffer's rule in plain Go: what every call must answer. It keeps groups as numbers.
type model struct {
	limits     runspec.BufferSpec
	steps      int
	retain     int
	version    int
	generation int

	state   map[int]string
	from    map[int]int // version launched with, as registered first
	min     map[int]int
	nth     map[int]int // to become ready
	bytes   map[int]int // stored size, of every group ever committed
	length  map[int]int // of those of which it is known
	phases  map[rollout.EpisodeRef]int
	lengths map[rollout.Code][]int // of the groups dropped, by code
	drops   map[int]rollout.Code
	batches [][]int // by step
	reports map[int]int
	next    int
	oldest  int
}

func newModel(s runspec.Spec, retain int) *model {
	return &model{
		limits: s.Buffer, steps: s.Steps, retain: retain,
		state: map[int]string{}, from: map[int]int{}, min: map[int]int{}, nth: map[int]int{}, bytes: map[int]int{},
		length: map[int]int{}, phases: map[rollout.EpisodeRef]int{}, lengths: map[rollout.Code][]int{},
		drops:   map[int]rollout.Code{},
		reports: map[int]int{},
	}
}

// in lists the groups in a state, by launch.
func (m *model) in(state string) []int {
	var out []int
	for seq, s := range m.state {
		if s == state {
			out = append(out, seq)
		}
	}
	slices.Sort(out)
	return out
}

func (m *model) stale(version int) bool {
	return m.limits.OnStale == runspec.DropStale && version < m.version-int(m.limits.MaxStaleness)
}

func (m *model) drop(seq int, code rollout.Code) {
	m.state[seq], m.drops[seq] = "dropped", code
	if _, known := m.length[seq]; !known {
		m.length[seq] = m.cameTo(seq)
	}
	m.lengths[code] = append(m.lengths[code], m.length[seq])
}

func (m *model) sweep() {
	for _, seq := range m.in("ready") {
		if m.stale(m.min[seq]) {
			m.drop(seq, "stale")
		}
	}
}

func (m *model) queue(seq, version int) rollout.RefusalCode {
	switch m.state[seq] {
	case "":
		m.state[seq] = "queued"
	case "dropped", "trained":
		return rollout.Fenced
	}
	if _, known := m.from[seq]; !known {
		m.from[seq] = version
	}
	return ""
}

func (m *model) start(seq int) rollout.RefusalCode {
	switch m.state[seq] {
	case "", "queued":
		m.state[seq] = "in_flight"
	case "dropped":
		return rollout.Fenced
	}
	return ""
}

// cameTo is how far the group's games have come in the mean.
func (m *model) cameTo(seq int) int {
	var phases []int
	for ref, n := range m.phases {
		if ref.Seq == rollout.GroupSeq(seq) {
			phases = append(phases, n)
		}
	}
	return mean(phases)
}

// mean is rounded, half up; that of nothing is 0.
func mean(of []int) int {
	sum := 0
	for _, n := range of {
		sum += n
	}
	return int(math.Floor(float64(sum)/float64(max(len(of), 1)) + 0.5))
}

// save keeps the phases that a game has finished.
func (m *model) save(ref rollout.EpisodeRef, phases int) rollout.RefusalCode {
	seq := int(ref.Seq)
	switch state := m.state[seq]; {
	case state != "" && state != "queued" && state != "in_flight", phases < m.phases[ref]:
		return rollout.Fenced
	}
	m.state[seq], m.phases[ref] = "in_flight", phases
	return ""
}

func (m *model) commit(seq, version, length, bytes int) (duplicate bool, dropped rollout.Code) {
	switch m.state[seq] {
	case "", "queued", "in_flight":
	case "dropped":
		return true, m.drops[seq]
	default:
		return true, ""
	}
	m.length[seq] = length
	if m.stale(version) {
		m.drop(seq, "stale")
		return false, "stale"
	}
	m.state[seq], m.min[seq], m.bytes[seq] = "ready", version, bytes
	m.nth[seq] = len(m.bytes)
	return false, ""
}

func (m *model) discard(seq int, code rollout.Code) rollout.RefusalCode {
	switch m.state[seq] {
	case "", "queued", "in_flight":
		m.drop(seq, code)
	case "dropped":
	default:
		return rollout.Conflict
	}
	return ""
}

func (m *model) release(seq int, code rollout.Code) bool {
	if m.state[seq] == "queued" {
		m.drop(seq, code)
	}
	return m.drops[seq] == code
}

func (m *model) claim(step, generation int) ([]int, rollout.RefusalCode) {
	switch {
	case generation != m.generation:
		return nil, rollout.Fenced
	case step < m.oldest:
		return nil, rollout.NotRetained
	case step < len(m.batches):
		return m.batches[step], ""
	case step >= m.steps:
		return nil, rollout.RunOver
	case step > len(m.batches) || step > m.next+1:
		return nil, rollout.OutOfOrder
	}
	m.sweep()
	ready := m.in("ready")
	if len(ready) < m.needed() {
		return nil, rollout.NotReady
	}
	if m.limits.Order == runspec.FinishOrder {
		slices.SortFunc(ready, func(a, b int) int { return m.nth[a] - m.nth[b] })
	}
	if m.limits.OnStale == runspec.WaitStale {
		if m.awaited(ready) > 0 {
			return nil, rollout.NotReady
		}
		slices.SortStableFunc(ready, func(a, b int) int { return m.min[a] - m.min[b] })
	}
	batch := ready[:m.limits.GroupsPerStep]
	slices.Sort(batch)
	m.to(batch, "claimed")
	m.batches = append(m.batches, batch)
	return batch, ""
}

// needed is how many groups must be ready for the next batch.
func (m *model) needed() int {
	size := m.limits.GroupsPerStep
	playing := len(m.in("queued")) + len(m.in("in_flight"))
	if len(m.batches) > 0 || playing == 0 && !m.room() {
		return size
	}
	return max(size, m.limits.First(m.steps))
}

// awaited is how many groups in play a batch waits for: those without which some group would find no place in the
// batches that it may be in, one per version. What fits into no batch any more is waited for as far as it fits into
// this one.
func (m *model) awaited(ready []int) int {
	size, missing := m.limits.GroupsPerStep, 0
	for j := range int(m.limits.MaxStaleness) + 1 { // versions from now
		then := m.version + len(m.batches) - m.next + j
		ends := func(version int) bool { return version+int(m.limits.MaxStaleness) <= then }
		here, inPlay := 0, 0
		for _, seq := range ready {
			if ends(m.min[seq]) {
				here++
			}
		}
		for _, seq := range slices.Concat(m.in("queued"), m.in("in_flight")) {
			if ends(m.from[seq]) {
				inPlay++
			}
		}
		missing = max(missing, min(size, here+inPlay-j*size)-here)
	}
	return missing
}

// room reports whether another group would fit.
func (m *model) room() bool {
	most := int(m.limits.MaxBytes)
	return most == 0 || len(m.bytes) > 0 && m.stored()+m.meanBytes() <= most
}

func (m *model) stored() int {
	sum := 0
	for _, state := range []string{"ready", "claimed", "completed"} {
		for _, seq := range m.in(state) {
			sum += m.bytes[seq]
		}
	}
	return sum
}

func (m *model) meanBytes() int {
	sum := 0
	for _, n := range m.bytes {
		sum += n
	}
	return sum / max(len(m.bytes), 1)
}

func (m *model) to(seqs []int, state string) {
	for _, seq := range seqs {
		m.state[seq] = state
	}
}

func (m *model) complete(step, generation, report int) (fresh bool, code rollout.RefusalCode) {
	switch {
	case generation != m.generation:
		return false, rollout.Fenced
	case step >= len(m.batches):
		return false, rollout.NotClaimed
	case step < m.next && m.reports[step] != report:
		return false, rollout.Conflict
	case step < m.next:
		return false, ""
	case step > m.next:
		return false, rollout.OutOfOrder
	}
	m.to(m.batches[step], "completed")
	m.reports[step] = report
	m.next++
	for ; m.oldest <= step-m.retain; m.oldest++ {
		m.to(m.batches[m.oldest], "trained")
	}
	return true, ""
}

func (m *model) attach(from int) (code rollout.RefusalCode) {
	switch {
	case from > m.next:
		return rollout.OutOfOrder
	case from < m.oldest:
		return rollout.NotRetained
	}
	for step := from; step < m.next; step++ {
		m.to(m.batches[step], "claimed")
	}
	m.next = from
	m.generation++
	return ""
}

func (m *model) counts() steprecord.BufferCounts {
	n := func(state string) int64 { return int64(len(m.in(state))) }
	return steprecord.BufferCounts{
		Queued: n("queued"), InFlight: n("in_flight"), Ready: n("ready"), Claimed: n("claimed"),
		Completed: n("completed") + n("trained"), Dropped: n("dropped"), Bytes: int64(m.stored()),
	}
}

// departures is the groups that have left, by reason and length.
func (m *model) departures() []steprecord.LengthCount {
	lengths := maps.Clone(m.lengths)
	for _, state := range []string{"completed", "trained"} {
		for _, seq := range m.in(state) {
			lengths[steprecord.Trained] = append(lengths[steprecord.Trained], m.length[seq])
		}
	}
	counts := []steprecord.LengthCount{}
	for _, code := range append([]rollout.Code{steprecord.Trained}, slices.Sorted(maps.Keys(m.lengths))...) {
		if len(lengths[code]) == 0 {
			continue
		}
		c := steprecord.LengthCount{Code: code, Groups: int64(len(lengths[code]))}
		c.ByLength = make([]int64, bits.Len(uint(slices.Max(lengths[code])))+1)
		for _, length := range lengths[code] {
			c.ByLength[bits.Len(uint(length))]++
		}
		counts = append(counts, c)
	}
	return counts
}
