package runrecord

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Validate reports the first thing that cannot be in a record.
func (r *Record) Validate() error {
	if r.Run.Spec.Name == "" {
		return errors.New("run.spec.name: is missing")
	}
	if r.Run.Spec.Buffer.GroupsPerStep < 1 || r.Run.Spec.Buffer.Depth < 1 || r.Run.Spec.Group.Samples < 1 {
		return errors.New("run.spec: buffer.depth, buffer.groups_per_step and group.samples are at least 1")
	}
	for i, s := range r.Steps {
		if i > 0 && s.Step <= r.Steps[i-1].Step {
			return fmt.Errorf("steps[%d]: step %d follows step %d; they are in order, each once", i, s.Step,
				r.Steps[i-1].Step)
		}
		if err := validStep(s); err != nil {
			return fmt.Errorf("steps[%d] (step %d): %w", i, s.Step, err)
		}
	}
	var last time.Time
	for i, e := range r.Events {
		if e.At.Before(last) {
			return fmt.Errorf("events[%d]: at %s, before the event above; they are in order of time", i,
				e.At.Format(time.RFC3339Nano))
		}
		last = e.At
	}
	return nil
}

func validStep(s steprecord.StepRecord) error {
	if !s.Done {
		return nil
	}
	for _, p := range steprecord.Phases() {
		if v := s.Trainer.Phases[p]; v < 0 || math.IsInf(v, 0) {
			return fmt.Errorf("phase %s takes %g s", p, v)
		}
	}
	if s.Trainer.WallSec <= 0 {
		return fmt.Errorf("takes %g s; a step that is done takes longer than 0", s.Trainer.WallSec)
	}
	if s.Service.CompletedAt.Before(s.Service.GrantedAt) {
		return errors.New("is completed before its batch was granted")
	}
	for i, g := range s.Service.Groups {
		if g.Times.ReadyAt.Before(g.Times.LaunchedAt) {
			return fmt.Errorf("groups[%d] (group %d): is ready before it was launched", i, g.Seq)
		}
		u := g.Usage
		if u.Requests < 0 || u.InputTokens < 0 || u.OutputTokens < 0 || u.CachedTokens < 0 ||
			u.CachedTokens > u.InputTokens {
			return fmt.Errorf("groups[%d] (group %d): has a usage that cannot be: %+v", i, g.Seq, u)
		}
	}
	return nil
}
