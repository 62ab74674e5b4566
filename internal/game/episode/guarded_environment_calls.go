package episode

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// stage is where a game's environment is called, and keeps the time of the phase under way. Each call is watched,
// and what goes wrong in it is a failure of the game.
type stage struct {
	now     func() time.Time
	watch   *Watch
	attempt int
	limit   rollout.Duration // of a phase; 0: none

	inside    time.Duration // spent by the phase in the environment
	atEngines time.Duration // and by its slowest request
}

func (p *Player) stage(plan Plan) *stage {
	return &stage{now: p.Now, watch: p.Watch, attempt: plan.Counted, limit: plan.Timeouts.PhaseLimit()}
}

// begin begins a phase.
func (s *stage) begin() { s.inside, s.atEngines = 0, 0 }

// call makes one call of the environment. The name is what failures are called, too.
func (s *stage) call(name string, f func() error) error {
	began := s.now()
	if err := s.watch.enter(call{name: name, since: began, phase: s.limit, spent: s.inside + s.atEngines,
		attempt: s.attempt}); err != nil {
		return err
	}
	err := shielded(name, f)
	if left := s.watch.exit(); left != nil {
		return left
	}
	s.inside += s.now().Sub(began)
	return err
}

// shielded makes a failure of what f returns or panics with; an environment that is somewhere else has failures of its
// own, which may pass.
func shielded(name string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = rollout.Fail(rollout.GameFault, rollout.CodeEnvironmentPanic, fmt.Errorf("%s: %v%s", name, r, culprit()))
		}
	}()
	if err := f(); err != nil {
		var known *rollout.Failure
		if errors.As(err, &known) {
			return err
		}
		return rollout.Fail(rollout.GameFault, rollout.Code(name), err)
	}
	return nil
}

// culprit is where the panic that is being recovered from was raised: " (file.go:12)".
func culprit() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	raised := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if raised && !inRuntime {
			return fmt.Sprintf(" (%s:%d)", frame.File[strings.LastIndexByte(frame.File, '/')+1:], frame.Line)
		}
		raised = raised || frame.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// over is the failure of a phase that has taken longer than it may, with what it waited for at engines; nil if it
// has not.
func (s *stage) over(atEngines time.Duration, slowest string) error {
	if s.limit <= 0 || s.inside+atEngines <= s.limit.Std() {
		return nil
	}
	return rollout.Fail(rollout.Retryable, rollout.CodePhaseDeadline,
		fmt.Errorf("took %.1f s of at most %s (timeouts.phase): %.1f s at engines%s, %.1f s in the environment",
			(s.inside+atEngines).Seconds(), s.limit, atEngines.Seconds(), slowest, s.inside.Seconds()))
}
