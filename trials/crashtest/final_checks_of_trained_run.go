package crashtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// findings is what an outcome amounts to.
type findings struct {
	steps, trajectories                          int
	lost, duplicated, holes, wrongVersion, turns int
	wrongWeights                                 int // turns of other weights than the trainer published
	rewound                                      int // steps trained again because a trainer went back
	again                                        int // answered calls that engines generated again
	calls                                        int // of programs that were answered
	refused                                      int // trainers that found themselves replaced
	violations                                   []string
}

func (f *findings) complain(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}

// check compares what was observed of a run with what is promised.
func check(o outcome) findings {
	f := findings{violations: slices.Clone(o.violations)}
	steps := f.journal(o)
	f.sequence(o, steps)
	f.once(steps)
	f.onceInAll(o)
	f.versions(o)
	f.zeroVariance(o)
	f.outside(o)
	f.opponents(o)
	if o.cut {
		f.given(o, steps)
		return f
	}
	if o.lost {
		f.replayed(o, steps)
		return f
	}
	f.succession(o)
	f.given(o, steps)
	f.accounts(o)
	f.starvation(o)
	return f
}

// journal reduces the trainer's lines to one per step. A step done again, by a trainer that was killed before it could
// record it, must have been fed the same.
func (f *findings) journal(o outcome) map[int64]trained {
	steps := map[int64]trained{}
	for _, line := range o.journal {
		before, again := steps[line.Step]
		excused := o.lost || o.lostBatches[rollout.Step(line.Step)]
		if again && !excused && !slices.Equal(before.Trajectories, line.Trajectories) {
			f.complain("step %d was fed two different batches", line.Step)
		}
		steps[line.Step] = line
	}
	return steps
}

// sequence looks for holes, and for steps that have not exactly their groups with enough whole games each.
func (f *findings) sequence(o outcome, steps map[int64]trained) {
	for k := range int64(o.plan.cfg.Steps) {
		step, ok := steps[k]
		if !ok && o.cut {
			break // whether there are later ones is checked below
		}
		if !ok {
			f.holes++
			f.complain("step %d was never trained", k)
			continue
		}
		f.steps++
		f.trajectories += len(step.Trajectories)
		if len(step.Groups) != o.plan.cfg.GroupsPerStep {
			f.complain("step %d has %d groups, not %d", k, len(step.Groups), o.plan.cfg.GroupsPerStep)
		}
		f.games(o, step)
	}
	if extra := len(steps) - f.steps; extra > 0 {
		f.complain("%d steps were trained that the run does not have", extra)
	}
	if !o.cut && int(o.account.NextStep) != o.plan.cfg.Steps {
		f.holes += max(o.plan.cfg.Steps-int(o.account.NextStep)-f.holes, 0)
		f.complain("%d of %d steps are recorded", o.account.NextStep, o.plan.cfg.Steps)
	}
}

// games looks whether each group of a step has as many games as it must and may have, and each game a trajectory of
// every agent.
func (f *findings) games(o outcome, step trained) {
	group := o.plan.spec().Group
	agents, least, most := o.plan.agents(), max(group.MinSamples, 1), group.Samples
	games := map[int64]map[string]int{} // trajectories by group and game
	for _, seq := range step.Groups {
		games[seq] = map[string]int{}
	}
	for _, id := range step.Trajectories {
		seq, game, ok := gameOf(id)
		if !ok || games[seq] == nil {
			f.complain("step %d has trajectory %q, of none of its groups", step.Step, id)
			continue
		}
		games[seq][game]++
	}
	for _, seq := range step.Groups {
		n := len(games[seq])
		if n < least || n > most {
			f.lost += max(least-n, 0) * agents
			f.complain("step %d: group %d has %d games, not %d to %d", step.Step, seq, n, least, most)
		}
		for game, trajectories := range games[seq] {
			if trajectories != agents {
				f.lost += max(agents-trajectories, 0)
				f.complain("step %d: game %s has %d trajectories, not %d", step.Step, game, trajectories, agents)
			}
		}
	}
}

// gameOf is the group and the game of a trajectory: RUN/GROUP/SAMPLE/AGENT.
func gameOf(id string) (seq int64, game string, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 {
		return 0, "", false
	}
	seq, err := strconv.ParseInt(parts[1], 10, 64)
	return seq, strings.Join(parts[:3], "/"), err == nil
}

// zeroVariance looks for groups that should have been dropped.
func (f *findings) zeroVariance(o outcome) {
	if o.plan.spec().Group.ZeroVariance != runspec.DropZeroVariance {
		return
	}
	for k, batch := range o.batches {
		for _, seq := range batch.zeroVariance {
			f.complain("step %d has group %d, whose rewards are all equal", k, seq)
		}
	}
}

// once looks for trajectories and groups that were trained on twice.
func (f *findings) once(steps map[int64]trained) {
	owner := map[string]int64{}
	groups := map[int64]int64{}
	for k, step := range steps {
		for _, id := range step.Trajectories {
			if other, taken := owner[id]; taken {
				f.duplicated++
				f.complain("trajectory %s is in steps %d and %d", id, other, k)
			}
			owner[id] = k
		}
		for _, seq := range step.Groups {
			if other, taken := groups[seq]; taken {
				f.complain("group %d is in steps %d and %d", seq, other, k)
			}
			groups[seq] = k
		}
	}
}

// onceInAll looks for trajectories that were trained on in two steps, also in batches that were lost since.
func (f *findings) onceInAll(o outcome) {
	if len(o.lostBatches) == 0 {
		return // each step has one batch, and once has looked at all
	}
	owner := map[string]int64{}
	for _, line := range o.journal {
		for _, id := range line.Trajectories {
			if other, taken := owner[id]; taken && other != line.Step {
				f.duplicated++
				f.complain("trajectory %s was trained on in steps %d and %d", id, other, line.Step)
			}
			owner[id] = line.Step
		}
	}
}

// replayed looks for trajectories that were trained on before Redis was emptied and came again after it, in whichever
// step. A step that had been trained and not recorded is done again, of others.
func (f *findings) replayed(o outcome, steps map[int64]trained) {
	final := map[string]bool{}
	for _, step := range steps {
		for _, id := range step.Trajectories {
			final[id] = true
		}
	}
	for _, line := range o.journal {
		if slices.Equal(steps[line.Step].Trajectories, line.Trajectories) {
			continue // the same line, or the same batch again
		}
		for _, id := range line.Trajectories {
			if final[id] {
				f.duplicated++
				f.complain("trajectory %s was trained on in step %d before Redis was emptied, and again after it", id, line.Step)
			}
		}
	}
}

// given compares what the trainer was fed with what claims gave.
func (f *findings) given(o outcome, steps map[int64]trained) {
	for k, step := range steps {
		batch := o.batches[rollout.Step(k)]
		switch {
		case batch == nil && o.lostBatches[rollout.Step(k)]:
		case batch == nil && (o.cut || int(k) < o.plan.cfg.Steps-o.plan.retain): // gone before anybody claimed it again
		case batch == nil:
			f.complain("step %d could never be claimed again", k)
		case !slices.Equal(batch.trajectories, step.Trajectories) || !slices.Equal(batch.groups, step.Groups):
			f.complain("step %d: the trainer was fed another batch than claims give", k)
		}
	}
}

// versions compares each turn's version with the model that answered, and with the weights that the model had then.
func (f *findings) versions(o outcome) {
	published := map[rollout.PolicyVersion]string{}
	for _, e := range o.events {
		if e.Event == publishing {
			published[rollout.PolicyVersion(e.Version)] = e.Digest
		}
	}
	for k, batch := range o.batches {
		for _, turn := range batch.turns {
			f.turns++
			want := turn.version.Adapter(o.plan.id())
			if want == "" {
				want = model
			}
			if turn.model != want {
				f.wrongVersion++
				f.complain("step %d, %s: a turn says version %d, but was answered by %q", k, turn.trajectory,
					turn.version, turn.model)
			}
			if turn.digest != published[turn.version] {
				f.wrongWeights++
				f.complain("step %d, %s: a turn says version %d, and was answered by weights %.8s; published were %.8s",
					k, turn.trajectory, turn.version, turn.digest, published[turn.version])
			}
		}
	}
}

// accounts looks for groups that are in no place: each one launched is trained on, or dropped for a reason and
// replaced once, or outstanding.
func (f *findings) accounts(o outcome) {
	if missing := unaccounted(o.account); missing != 0 {
		f.lost += int(max(missing, 0)) * o.plan.cfg.Samples * o.plan.agents()
		f.complain("%d groups are launched but nowhere: %+v", missing, o.account.Counts)
	}
	want := int64(o.plan.cfg.Steps * o.plan.cfg.GroupsPerStep)
	// Of a lost batch, the step stays completed without its groups, or has others after it was trained on.
	lost := int64(len(o.lostBatches) * o.plan.cfg.GroupsPerStep)
	if got := o.account.Counts.Completed; got > want+lost || got < want-lost {
		f.complain("the account has %d completed groups, not %d", o.account.Counts.Completed, want)
	}
	reasons := int64(0)
	for _, n := range o.account.Drops {
		reasons += n
	}
	if reasons != o.account.Counts.Dropped {
		f.complain("%d groups were dropped, %d of them for a reason: %v", o.account.Counts.Dropped, reasons, o.account.Drops)
	}
}
