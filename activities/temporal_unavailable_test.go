package activities

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/internal/rollout"
)

// at has f happen after a time, with the stand's lock.
func (s *stand) at(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	})
}

func says(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// hangs is a Temporal that is stopped, or behind a network that hangs.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return serviceerror.NewDeadlineExceeded(ctx.Err().Error())
}

// A game goes on while Temporal is unavailable, at the pace of its engines, and is finished by the attempt that
// Temporal has forgotten meanwhile, unless another one has begun.
func TestGamesGoOnWithoutTemporal(t *testing.T) {
	forgotten := serviceerror.NewNotFound("invalid activityID or activity already timed out")
	for _, tt := range []struct {
		name    string
		during  func(context.Context) error // what Temporal says from 10 s on
		after   error                       // and from 5 minutes on
		later   error                       // what the buffer says of the attempt then
		code    rollout.Code                // with which it ends then; empty: it goes on to the game's end
		excused bool
	}{
		{name: "stopped, and back in time", during: hangs},
		{name: "killed, and back in time", during: says(serviceerror.NewUnavailable("connection refused"))},
		{name: "it has lost the namespace for a while", during: says(serviceerror.NewNamespaceNotFound("default"))},
		{name: "it has taken the game for dead", during: hangs, after: forgotten, excused: true},
		{name: "and another attempt plays it", during: hangs, after: forgotten,
			later: rollout.Refuse(rollout.Fenced, "attempt 2 has begun"), code: rollout.CodeSuperseded, excused: true},
		{name: "it wants the game no more", during: hangs, after: temporal.NewCanceledError(), code: rollout.CodeCancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onStand(t, "", func(string) {}, 0, time.Minute, func(s *stand) {
				s.plan.Timeouts.Phase = rollout.Duration(10 * time.Minute)
				s.at(10*time.Second, func() { s.temporal = tt.during })
				ctx, end := context.WithCancelCause(context.Background())
				defer end(nil)
				s.env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
				s.at(5*time.Minute+time.Second, func() {
					s.buffer.setLater(tt.later)
					s.temporal = says(tt.after)
					if temporal.IsCanceledError(tt.after) {
						s.temporal = func(context.Context) error { end(tt.after); return tt.after } // the SDK hears it, too
					}
				})
				err := s.play()
				s.mu.Lock()
				defer s.mu.Unlock()
				took := time.Since(s.began)
				if tt.code == "" {
					if err != nil || s.buffer.ended == nil || len(s.events) > 0 {
						t.Fatalf("finished %v: %v; events %+v", s.buffer.ended != nil, err, s.events)
					}
					if want := time.Duration(s.buffer.saves) * 3 * time.Minute; took-want > time.Second {
						t.Errorf("the game took %v, its engines %v of it", took, want)
					}
				} else if failed := s.failed(); failed.Code != tt.code || took > 5*time.Minute+30*time.Second {
					t.Errorf("ended as %s after %v, want %s", failed.Code, took, tt.code)
				}
				if excused := s.buffer.excused > 0; excused != tt.excused {
					t.Errorf("excused %v, want %v: nobody's failure is held against the game", excused, tt.excused)
				}
			})
		})
	}
}

// The attempt that Temporal begins when it is back finds the game in its own process: it takes it over with the
// requests that wait, and nothing is asked twice.
func TestTheNextAttemptTakesTheGameOver(t *testing.T) {
	onStand(t, "", func(string) {}, 0, time.Minute, func(s *stand) {
		s.plan.Timeouts.Phase = rollout.Duration(10 * time.Minute)
		first, next := make(chan error), s.newEnv()
		go func() { first <- s.play() }()
		time.Sleep(90 * time.Second) // in the second turn
		_, err := next.ExecuteActivity(s.acts.PlayEpisode, EpisodeInput{Plan: s.plan, Sample: 2})
		if err != nil || s.buffer.ended == nil {
			t.Errorf("the second attempt: %v, finished %v", err, s.buffer.ended != nil)
		}
		if err := <-first; Code(err) != rollout.CodeSuperseded {
			t.Errorf("the first attempt: %v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if took, want := time.Since(s.began), time.Duration(s.buffer.saves)*time.Minute; took != want {
			t.Errorf("the game took %v, its engines %v of it", took, want)
		}
		if len(s.events) > 0 || s.buffer.begins != 1 {
			t.Errorf("%d attempts have begun; events %+v", s.buffer.begins, s.events)
		}
	})
}
