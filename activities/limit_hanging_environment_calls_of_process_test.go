package activities

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

func TestTooManyHangingCallsEndTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h HangingCalls
		leave := func(n int) (backs []func()) {
			for range n {
				backs = append(backs, h.leave("demo", time.Now()))
			}
			return backs
		}
		leave(MaxHanging - 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Watch(ctx) }()
		time.Sleep(time.Hour)
		slow := leave(100)
		time.Sleep(hangingFor - 2*time.Second)
		for _, back := range slow {
			back()
		}
		time.Sleep(time.Hour)
		if len(ended) > 0 {
			t.Fatalf("ended with %d calls, and 100 that were slow: %v", h.Count(), <-ended)
		}
		since := time.Now()
		back := leave(1)[0]
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "start it again") || time.Since(since) < hangingFor {
			t.Errorf("got %v after %v", err, time.Since(since))
		}
		back()
		go func() { ended <- h.Watch(ctx) }()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("at the process's end: %v", err)
		}
	})
}

// A run whose environment hangs in every game, or is always slower than the run allows, leaves no more calls behind
// than a process may have; its other games wait, which is not held against them, and other runs play.
func TestARunWhoseEnvironmentHangsLeavesRoomToOthers(t *testing.T) {
	onStand(t, "", func(string) {}, 0, time.Second, func(s *stand) {
		var backs []func()
		for range MaxHanging {
			backs = append(backs, s.acts.HangingCalls.leave("demo", time.Now()))
		}
		wantCode(t, s.play(), rollout.CodeEnvironmentHung, false)
		if s.buffer.excused != 1 || len(s.buffer.failed) != 0 || s.buffer.finished != 0 {
			t.Errorf("%d excused, failed %v, %d finished; want the attempt excused", s.buffer.excused, s.buffer.failed,
				s.buffer.finished)
		}
		s.plan.Ref.Run = "other"
		if err := s.play(); err != nil || s.buffer.finished != 1 {
			t.Errorf("another run's game: %v", err)
		}
		s.plan.Ref.Run = "demo"
		time.AfterFunc(3*time.Second, backs[0])
		if err := s.play(); err != nil || s.buffer.finished != 2 {
			t.Errorf("once a call has returned: %v", err)
		}
	})
}
