// Package buffermodel is a run's buffer without Redis: the rules of package buffer's scripts, by which groups are
// queued, started, made ready, dropped, claimed and completed, in memory. A law in package buffer holds it against the
// scripts.
//
// Start reading at Buffer, then Claim.
package buffermodel

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Buffer is what the buffer knows of one run. It has no clock and no locks; one owner calls it.
type Buffer struct {
	limits runspec.BufferSpec
	steps  int
	retain int // completed steps whose groups are kept, and count for the bound in bytes
	onDrop func(rollout.GroupSeq, rollout.Code)

	version rollout.PolicyVersion
	groups  map[rollout.GroupSeq]*group // queued, in flight, ready, claimed, and completed ones that are kept
	dropped map[rollout.GroupSeq]rollout.Code
	highest rollout.GroupSeq

	queued, inFlight, ready, claimed seqs

	asked                 time.Time               // when the step that is not granted was claimed first
	batches               [][]rollout.GroupSeq    // of the steps from oldest to granted
	oldest, next, granted int                     // steps: first kept, first not completed, first never granted
	over                  bool                    // no more batches
	completed, drops      int64                   // groups
	commits, commitBytes  int64                   // ever
	bytes                 int64                   // stored
	departures            map[departureKey]*int64 // groups that left
}

// SetLimits is an operator's change of what bounds the buffer. Groups per step stay as they are.
func (b *Buffer) SetLimits(limits runspec.BufferSpec) {
	limits.GroupsPerStep = b.limits.GroupsPerStep
	b.limits = limits
}

type departureKey struct {
	code   rollout.Code
	bucket int
}

// group is one group that has not left for good.
type group struct {
	state state
	from  rollout.PolicyVersion // that it was launched with
	Ready
	at  rollout.PolicyVersion // newest when it became ready
	nth int64                 // to become ready
}

type state uint8

const (
	queued state = iota
	inFlight
	ready
	claimed
	completed
)

// Ready is a group that its games have made.
type Ready struct {
	Seq          rollout.GroupSeq
	Min          rollout.PolicyVersion // oldest that made any turn of it
	Trajectories int
	Bytes        int64 // stored
	ZeroVariance bool
	Length       int // mean phases of its games
	View         *steprecord.GroupView
}

// New is the buffer of a run that begins. Retain is how many completed steps' groups are kept; onDrop, if not nil,
// hears of every group that is dropped.
func New(limits runspec.BufferSpec, steps, retain int, onDrop func(rollout.GroupSeq, rollout.Code)) *Buffer {
	if onDrop == nil {
		onDrop = func(rollout.GroupSeq, rollout.Code) {}
	}
	return &Buffer{
		limits: limits, steps: steps, retain: retain, onDrop: onDrop, highest: -1,
		groups: map[rollout.GroupSeq]*group{}, dropped: map[rollout.GroupSeq]rollout.Code{},
		departures: map[departureKey]*int64{},
	}
}

// Version is the newest version that serves.
func (b *Buffer) Version() rollout.PolicyVersion { return b.version }

// Queue registers a group launched with a version. False: it has left.
func (b *Buffer) Queue(seq rollout.GroupSeq, version rollout.PolicyVersion) bool {
	if b.gone(seq) {
		return false
	}
	if b.groups[seq] == nil {
		b.enter(seq).from = version
	}
	return true
}

// enter takes a group that was never heard of in as queued.
func (b *Buffer) enter(seq rollout.GroupSeq) *group {
	g := &group{Ready: Ready{Seq: seq}}
	b.groups[seq] = g
	b.queued.add(seq)
	b.highest = max(b.highest, seq)
	return g
}

// gone reports whether a group has left for good.
func (b *Buffer) gone(seq rollout.GroupSeq) bool {
	_, dropped := b.dropped[seq]
	return dropped
}

// Start notes that the first request of a group was dispatched. False: the group was dropped.
func (b *Buffer) Start(seq rollout.GroupSeq) bool {
	if b.gone(seq) {
		return false
	}
	g := b.groups[seq]
	if g == nil {
		g = b.enter(seq)
	}
	if g.state == queued {
		b.move(g, inFlight)
	}
	return true
}

func (b *Buffer) set(s state) *seqs {
	switch s {
	case queued:
		return &b.queued
	case inFlight:
		return &b.inFlight
	case ready:
		return &b.ready
	case claimed:
		return &b.claimed
	case completed:
	}
	return new(seqs) // those that are completed are kept by their batches
}

func (b *Buffer) move(g *group, to state) {
	b.set(g.state).remove(g.Seq)
	b.set(to).add(g.Seq)
	g.state = to
}

// Commit makes a group ready, once, or drops it when it is too stale. The answer is why it is dropped, and whether this
// call was the one that made it so, or made it ready.
func (b *Buffer) Commit(r Ready) (dropped rollout.Code, fresh bool) {
	if code, was := b.dropped[r.Seq]; was {
		return code, false
	}
	g := b.groups[r.Seq]
	if g == nil {
		g = b.enter(r.Seq)
	}
	if g.state != queued && g.state != inFlight {
		return "", false
	}
	if r.Min < b.oldestFresh() {
		b.drop(g, rollout.CodeStale, r.Length)
		return rollout.CodeStale, true
	}
	b.move(g, ready)
	b.commits++
	g.Ready, g.nth, g.at = r, b.commits, max(b.version, r.Min)
	b.bytes += r.Bytes
	b.commitBytes += r.Bytes
	return "", true
}

// Discard lets a queued or in-flight group go, or one never heard of; length is how many phases its games have come to
// in the mean. False: it is ready or further.
func (b *Buffer) Discard(seq rollout.GroupSeq, code rollout.Code, length int) bool {
	if b.gone(seq) {
		return true
	}
	g := b.groups[seq]
	if g == nil {
		g = b.enter(seq)
	}
	if g.state != queued && g.state != inFlight {
		return false
	}
	b.drop(g, code, length)
	return true
}

// Release lets a group go that is queued, and no other; it answers whether the group has gone for this code.
func (b *Buffer) Release(seq rollout.GroupSeq, code rollout.Code) bool {
	if g := b.groups[seq]; g != nil && g.state == queued {
		b.drop(g, code, 0)
	}
	return b.dropped[seq] == code
}

func (b *Buffer) drop(g *group, code rollout.Code, length int) {
	b.set(g.state).remove(g.Seq)
	if g.state == ready {
		b.bytes -= g.Bytes
	}
	delete(b.groups, g.Seq)
	b.dropped[g.Seq] = code
	b.drops++
	b.depart(code, length)
	b.onDrop(g.Seq, code)
}

// depart counts a group that leaves.
func (b *Buffer) depart(code rollout.Code, length int) {
	key := departureKey{code, bucketOf(length)}
	n := b.departures[key]
	if n == nil {
		n = new(int64)
		b.departures[key] = n
	}
	*n++
}

// bucketOf is the class of a length: 0, 1, 2-3, 4-7 and so on, doubling.
func bucketOf(length int) int {
	bucket := 0
	for least := 1; length >= least && bucket < steprecord.LongestBucket; least *= 2 {
		bucket++
	}
	return bucket
}

// SetVersion takes a newer version, and drops the ready groups that are too stale for it.
func (b *Buffer) SetVersion(v rollout.PolicyVersion) {
	if v > b.version {
		b.version = v
		b.sweep()
	}
}

// oldestFresh is the oldest version that may still be trained on.
func (b *Buffer) oldestFresh() rollout.PolicyVersion {
	if b.limits.OnStale != runspec.DropStale {
		return 0
	}
	return b.version - rollout.PolicyVersion(b.limits.MaxStaleness)
}

// sweep drops the ready groups that are too stale.
func (b *Buffer) sweep() {
	fresh := b.oldestFresh()
	if fresh <= 0 {
		return
	}
	for _, seq := range slices.Clone(b.ready.all) {
		if g := b.groups[seq]; g.Min < fresh {
			b.drop(g, rollout.CodeStale, g.Length)
		}
	}
}

// End lets the buffer give out no more batches.
func (b *Buffer) End() { b.over = true }

// Complete acknowledges a step's batch; steps are completed in order.
func (b *Buffer) Complete(step rollout.Step) error {
	k := int(step)
	if k != b.next || k >= b.granted {
		return fmt.Errorf("step %d cannot be completed: the next one is %d of %d that were claimed", k, b.next, b.granted)
	}
	for _, seq := range b.batches[k-b.oldest] {
		g := b.groups[seq]
		b.move(g, completed)
		b.completed++
		b.depart(steprecord.Trained, g.Length)
	}
	b.next++
	for b.oldest <= k-b.retain {
		for _, seq := range b.batches[0] {
			b.bytes -= b.groups[seq].Bytes
			delete(b.groups, seq)
		}
		b.batches = b.batches[1:]
		b.oldest++
	}
	return nil
}

// seqs is groups in the order of their launch.
type seqs struct{ all []rollout.GroupSeq }

func (s *seqs) add(seq rollout.GroupSeq) {
	at, _ := slices.BinarySearch(s.all, seq)
	s.all = slices.Insert(s.all, at, seq)
}

func (s *seqs) remove(seq rollout.GroupSeq) {
	if at, found := slices.BinarySearch(s.all, seq); found {
		s.all = slices.Delete(s.all, at, at+1)
	}
}
