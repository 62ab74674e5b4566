package buffer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// knownMarks is how far this process has seen the accounts of runs come. What it knows goes with every call that could
// do harm, so that a Redis which is behind it is noticed by that very call.
type knownMarks struct {
	mu  sync.Mutex
	all map[rollout.RunName]*knownMark
}

// knownMark is the latest mark of an account, and the part that the run's workflow may not have yet.
type knownMark struct {
	runstatus.Mark
	witnessed int64     // serial that the workflow has
	seen      bool      // in Redis, not only told by the workflow
	missing   time.Time // since when Redis was seen without it
}

func newKnownMarks() *knownMarks { return &knownMarks{all: map[rollout.RunName]*knownMark{}} }

// markOf reads what scripts answer as a mark; the serial that the workflow has comes with it.
func markOf(r reply) knownMark {
	return knownMark{Mark: runstatus.Mark{
		Era: r.int(0), Serial: r.int(1), Generation: rollout.TrainerGeneration(r.int(3)),
		Granted: rollout.Step(r.int(4)), Completed: rollout.Step(r.int(5)), Version: rollout.PolicyVersion(r.int(6)),
	}, witnessed: r.int(2), seen: true}
}

// grantOf is a batch of groups, given as number and trajectory count in turn.
func grantOf(step rollout.Step, version rollout.PolicyVersion, groups reply, digest string) runstatus.Grant {
	g := runstatus.Grant{Step: step, Version: version, Digest: digest, Seqs: []rollout.GroupSeq{}}
	for i := 0; i+1 < len(groups); i += 2 {
		g.Seqs = append(g.Seqs, rollout.GroupSeq(groups.int(i)))
	}
	return g
}

// floor is the era and the serial below which the run's account must not be.
func (k *knownMarks) floor(run rollout.RunName) []any {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.all[run]; m != nil {
		return []any{m.Era, m.Serial}
	}
	return []any{0, 0}
}

// note takes over a mark that is not behind what is known. Batches that the workflow does not have yet add up.
func (k *knownMarks) note(run rollout.RunName, mark knownMark) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.all[run]
	if was != nil && (mark.Era < was.Era || mark.Era == was.Era && mark.Serial < was.Serial) {
		return
	}
	if was != nil && was.Era == mark.Era {
		mark.witnessed = max(mark.witnessed, was.witnessed)
	}
	mark.seen = mark.seen || was != nil && was.seen
	switch {
	case mark.witnessed >= mark.Serial:
		mark.Grants = nil
	case was != nil && was.Era == mark.Era:
		mark.Grants = withGrants(was.Grants, mark.Grants)
	}
	k.all[run] = &mark
}

// maxUnwitnessed bounds the batches that are kept for a workflow which cannot be told of them.
const maxUnwitnessed = 64

// withGrants is batches with later ones of the same or other steps.
func withGrants(before, after []runstatus.Grant) []runstatus.Grant {
	all := map[rollout.Step]runstatus.Grant{}
	for _, g := range slices.Concat(before, after) {
		all[g.Step] = g
	}
	steps := slices.Sorted(maps.Keys(all))
	out := make([]runstatus.Grant, 0, len(steps))
	for _, step := range steps[max(0, len(steps)-maxUnwitnessed):] {
		out = append(out, all[step])
	}
	return out
}

// tellAgain has the workflow told once more how far the account had come: Redis is behind it.
func (k *knownMarks) tellAgain(run rollout.RunName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.all[run]; m != nil {
		m.witnessed = -1
	}
}

// reopenedWithin is how long a run's workflow may take to open a run again that Redis has forgotten.
const reopenedWithin = 2 * time.Minute

// mayReturn reports whether a run that Redis does not know at a time was there a moment ago.
func (k *knownMarks) mayReturn(run rollout.RunName, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.all[run]
	if m == nil || !m.seen {
		return false
	}
	if m.missing.IsZero() {
		m.missing = now
	}
	return now.Sub(m.missing) < reopenedWithin
}

// maxAwaited bounds the runs that are known only because a caller asked for them.
const maxAwaited = 10_000

// await has a run that Redis does not know be one that may return, from now on.
func (k *knownMarks) await(run rollout.RunName, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[run] == nil && len(k.all) >= maxAwaited {
		return // callers may ask for any name
	}
	if k.all[run] == nil {
		k.all[run] = &knownMark{}
	}
	k.all[run].seen, k.all[run].missing = true, now
}

func (k *knownMarks) forget(run rollout.RunName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, run)
}

// Knows reports whether this process has seen how far a run's account has come, or was told.
func (s *Store) Knows(run rollout.RunName) bool {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	return s.known.all[run] != nil
}

// Know tells this process how far a run's workflow knows the account to have come: an account behind that is in doubt.
func (s *Store) Know(run rollout.RunName, mark runstatus.Mark) {
	s.known.note(run, knownMark{Mark: mark, witnessed: mark.Serial})
}

// Await is called when a run that Redis does not know, and that could not be opened again so far, may return.
func (s *Store) Await(run rollout.RunName) { s.known.await(run, s.now()) }

// MayReturn reports whether a run that Redis does not know is about to be opened again by its workflow: it was there a
// moment ago, or is awaited, and was not deleted.
func (s *Store) MayReturn(ctx context.Context, run rollout.RunName) bool {
	if !s.known.mayReturn(run, s.now()) {
		return false
	}
	gone, err := s.rdb.Exists(ctx, s.key(run, "gone")).Result()
	return err == nil && gone == 0
}

// Unwitnessed is how far this process has seen a run's account come, where the run's workflow may not know it yet.
func (s *Store) Unwitnessed(run rollout.RunName) (runstatus.Mark, bool) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	m := s.known.all[run]
	if m == nil || m.witnessed >= m.Serial {
		return runstatus.Mark{}, false
	}
	mark := m.Mark
	mark.Grants = slices.Clone(mark.Grants)
	return mark, true
}

// UnwitnessedRuns lists the runs with a mark that their workflow may not have.
func (s *Store) UnwitnessedRuns() []rollout.RunName {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	var runs []rollout.RunName
	for run, m := range s.known.all {
		if m.witnessed < m.Serial {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs)
	return runs
}
