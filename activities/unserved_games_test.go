package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
)

// A game whose model no engine serves gives its slot back soon and rests longer each time, however often; it says
// so once, and none of its attempts is held against it.
func TestGameThatNoEngineServesRests(t *testing.T) {
	for excused, rest := range map[int]time.Duration{0: 2 * time.Second, 2: 8 * time.Second, 50: 30 * time.Second} {
		onStandOf(t, fmt.Sprintf("after %d times", excused), time.Hour, func(s *stand) {
			s.fleet.serves = "bass"
			s.buffer.begun = buffer.Attempt{Number: excused + 1, Counted: 1, Excused: excused}
			err := s.play()
			wantCode(t, err, rollout.CodeUnserved, false)
			var app *temporal.ApplicationError
			if !errors.As(err, &app) || app.NextRetryDelay() != rest {
				t.Errorf("got %v, want a rest of %v", err, rest)
			}
			if took := time.Since(s.began); took > 20*time.Second {
				t.Errorf("it held its slot for %v", took)
			}
			if told := len(s.events); told != 1 && excused == 0 || told != 0 && excused > 0 || s.buffer.excused != 1 {
				t.Errorf("after %d times: %d events, %d excused", excused, told, s.buffer.excused)
			}
		})
	}
}

// A game whose opponent elsewhere stays silent gives its slot back, and no attempt is held against it. An opponent that
// takes long is no model that engines lack, and its answers are no work of theirs.
func TestGameWithPolicyElsewhere(t *testing.T) {
	elsewhere := func(s *stand, p episode.Policy) {
		s.plan.Environment.Options = json.RawMessage(`{"opponent": "policy:gpt"}`)
		s.plan.Elsewhere = map[string]runspec.FixedPolicy{"gpt": {Name: "gpt", URL: "https://x/v1", Model: "gpt-x"}}
		s.acts.Policy = aside{s.acts.Policy, p}
	}
	onStandOf(t, "that stays silent", 0, func(s *stand) {
		elsewhere(s, stranded{15 * time.Second, rollout.CodePolicyUnavailable})
		err := s.play()
		wantCode(t, err, rollout.CodePolicyUnavailable, false)
		if !strings.Contains(err.Error(), "O, played by policy:gpt") || s.buffer.excused != 1 ||
			s.failure().Usage.Requests != 1 {
			t.Errorf("%v; %d excused, %+v", err, s.buffer.excused, s.events)
		}
	})
	onStandOf(t, "that takes long", 0, func(s *stand) {
		elsewhere(s, paced{exec: 12 * time.Second})
		if err := s.play(); err != nil {
			t.Fatal(err)
		}
		if ep := s.buffer.ended; ep.Usage.Requests != int64(len(ep.Trajectories[0].Turns)) || ep.ModelSec < 24 {
			t.Errorf("%d turns cost %+v, in %v s", len(ep.Trajectories[0].Turns), ep.Usage, ep.ModelSec)
		}
	})
}

// aside asks elsewhere what has a URL.
type aside struct{ fleet, elsewhere episode.Policy }

func (p aside) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	if req.URL != "" {
		return p.elsewhere.Complete(ctx, req)
	}
	return p.fleet.Complete(ctx, req)
}

// A game waits in its slot for a fleet that starts, however long that takes: no attempt fails, and none is told of.
func TestGameWaitsForAFleetThatStarts(t *testing.T) {
	onStandOf(t, "for minutes", time.Minute, func(s *stand) {
		s.fleet.starts, s.plan.Timeouts.Phase = true, rollout.Duration(time.Hour)
		if err := s.play(); err != nil {
			t.Error(err)
		}
		if took := time.Since(s.began); took < time.Minute || len(s.buffer.failed) > 0 || s.buffer.excused > 0 {
			t.Errorf("after %v: failed %v, %d excused", took, s.buffer.failed, s.buffer.excused)
		}
	})
	for starts, failed := range map[bool]int{true: 0, false: 1} {
		onStandOf(t, fmt.Sprintf("for longer than a request may wait: %t", starts), 0, func(s *stand) {
			s.fleet.starts, s.plan.Timeouts.Phase = starts, rollout.Duration(time.Hour)
			s.acts.Policy = stranded{time.Minute, rollout.CodeNoEngine}
			wantCode(t, s.play(), rollout.CodeNoEngine, false)
			if told := len(s.events); len(s.buffer.failed) != failed || s.buffer.excused != 1-failed || told != failed {
				t.Errorf("failed %v, %d excused, %d events", s.buffer.failed, s.buffer.excused, told)
			}
		})
	}
	onStandOf(t, "for longer than a phase", 30*time.Second, func(s *stand) {
		s.fleet.starts = true
		wantCode(t, s.play(), rollout.CodePhaseDeadline, false)
		if len(s.buffer.failed) > 0 || s.buffer.excused != 1 || len(s.events) > 0 {
			t.Errorf("failed %v, %d excused, %d events", s.buffer.failed, s.buffer.excused, len(s.events))
		}
	})
}

// stranded waits, and then fails.
type stranded struct {
	after time.Duration
	code  rollout.Code
}

func (p stranded) Complete(ctx context.Context, _ rollout.Request) (rollout.Completion, error) {
	select {
	case <-time.After(p.after):
		return rollout.Completion{}, rollout.Fail(rollout.Retryable, p.code, errors.New("rejected"))
	case <-ctx.Done():
		return rollout.Completion{}, ctx.Err()
	}
}
