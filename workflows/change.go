package workflows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runmachine"
)

// validateChange reports why a change cannot be made to a run in this state.
func validateChange(r *runmachine.Run, c rollout.Change) error {
	if r.State.Over() {
		return rollout.Refuse(rollout.RunOver, "run %s is %s; only an active run can be changed", r.Spec.Name, r.State)
	}
	if c == (rollout.Change{}) {
		return rollout.Refuse(rollout.Invalid, "the change sets nothing; name a field, such as buffer.depth=4")
	}
	spec := r.Spec.With(c)
	var faults []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	check(spec.Buffer.Depth >= 1 && spec.Buffer.Depth <= rollout.MaxDepth, "buffer.depth=%d: 1 to %d", spec.Buffer.Depth, rollout.MaxDepth)
	check(spec.Buffer.GroupsPerStep >= 1 && spec.Buffer.Outstanding() <= rollout.MaxOutstanding,
		"buffer.groups_per_step=%d: at least 1, and depth x groups_per_step at most %d", spec.Buffer.GroupsPerStep, rollout.MaxOutstanding)
	check(spec.Buffer.MaxStaleness >= 0 && spec.Buffer.MaxStaleness <= rollout.MaxStaleness,
		"buffer.max_staleness=%d: 0 to %d", spec.Buffer.MaxStaleness, rollout.MaxStaleness)
	check(slices.Contains([]rollout.OnStale{rollout.DropStale, rollout.KeepStale, rollout.WaitStale}, spec.Buffer.OnStale),
		"buffer.on_stale=%s: drop, keep or wait", spec.Buffer.OnStale)
	check(spec.Buffer.MaxBytes >= 0, "buffer.max_bytes=%d: 0, which is no bound, or more", spec.Buffer.MaxBytes)
	check(spec.Group.Samples >= 1, "group.samples=%d: at least 1", spec.Group.Samples)
	check(spec.Group.MinSamples >= 1 && spec.Group.MinSamples <= spec.Group.Samples,
		"group.min_samples=%d: 1 to group.samples=%d", spec.Group.MinSamples, spec.Group.Samples)
	check(spec.Group.Oversample >= 0 && spec.Group.Samples+spec.Group.Oversample <= rollout.MaxEpisodes,
		"group.oversample=%d: 0 or more, and at most %d episodes with group.samples=%d", spec.Group.Oversample, rollout.MaxEpisodes, spec.Group.Samples)
	check(spec.Group.Grace >= 0, "group.grace=%v: 0s, which is to the end, or more", spec.Group.Grace)
	zero := spec.Group.ZeroVariance
	check(zero == "" || zero == rollout.KeepFlat || zero == rollout.DropFlat, "group.zero_variance=%s: keep or drop", zero)
	check(zero != rollout.DropFlat || spec.Group.MinSamples > 1,
		"group.zero_variance=drop: needs group.min_samples of 2 or more, not %d, since one episode has no variance", spec.Group.MinSamples)
	check(spec.Steps <= rollout.MaxSteps, "steps=%d: %d at most", spec.Steps, rollout.MaxSteps)
	check(spec.Steps >= r.Claimed && spec.Steps >= 1, "steps=%d: %d steps are already claimed", spec.Steps, r.Claimed)
	if len(faults) > 0 {
		return rollout.Refuse(rollout.Invalid, "%s", strings.Join(faults, "; "))
	}
	return nil
}

// describe is the change as an operator would write it.
func describe(c rollout.Change) string {
	var parts []string
	say := func(name string, value any) { parts = append(parts, fmt.Sprintf("%s=%v", name, value)) }
	if c.Depth != nil {
		say("buffer.depth", *c.Depth)
	}
	if c.GroupsPerStep != nil {
		say("buffer.groups_per_step", *c.GroupsPerStep)
	}
	if c.MaxStaleness != nil {
		say("buffer.max_staleness", *c.MaxStaleness)
	}
	if c.OnStale != nil {
		say("buffer.on_stale", *c.OnStale)
	}
	if c.Samples != nil {
		say("group.samples", *c.Samples)
	}
	if c.MinSamples != nil {
		say("group.min_samples", *c.MinSamples)
	}
	if c.MaxBytes != nil {
		say("buffer.max_bytes", *c.MaxBytes)
	}
	if c.Oversample != nil {
		say("group.oversample", *c.Oversample)
	}
	if c.Grace != nil {
		say("group.grace", *c.Grace)
	}
	if c.ZeroVariance != nil {
		say("group.zero_variance", *c.ZeroVariance)
	}
	if c.Steps != nil {
		say("steps", *c.Steps)
	}
	text := ""
	if len(parts) > 0 {
		text = "set " + strings.Join(parts, " ")
	}
	if c.Paused == nil {
		return text
	}
	if *c.Paused {
		return strings.TrimSpace(text + " pause")
	}
	return strings.TrimSpace(text + " resume")
}
