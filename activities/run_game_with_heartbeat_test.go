package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/sdk/activity"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/internal/store/buffer"
)

// shelf is a buffer that keeps one group's games in memory.
type shelf struct {
	Buffer // what a game has no need of
	mu     sync.Mutex
	start  []byte
	saved  *rollout.Checkpoint
	saves  int
	ended  *rollout.Episode

	failed   []rollout.Code // codes of the attempts that were counted so
	finished int
	advanced int
	tells    func(telemetry.Event) // what the buffer's scripts tell

	fenced  error // of every save
	over    bool  // the group
	begun   buffer.Attempt
	begins  int
	later   error // of Begin: another attempt has begun
	excused int
}

func (s *shelf) Queue(_ context.Context, _ rollout.GroupRef, scenario []byte, _ rollout.PolicyVersion,
	_ time.Time) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.start) == 0 {
		s.start = scenario
	}
	return s.start, nil
}

func (s *shelf) Begin(_ context.Context, _ buffer.GameRef, _ time.Time, attempt int) (buffer.Attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begins++
	if s.later != nil {
		return buffer.Attempt{}, s.later
	}
	if s.begun == (buffer.Attempt{}) {
		s.begun = buffer.Attempt{Number: attempt, Counted: attempt}
	}
	return s.begun, nil
}

// setLater has the buffer say that another attempt has begun.
func (s *shelf) setLater(refusal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.later = refusal
}

func (s *shelf) Excuse(context.Context, buffer.GameRef, int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excused++
	return nil
}

func (s *shelf) InPlay(context.Context, rollout.GroupRef) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.over, nil
}

// OpenJournal makes the shelf its own journal.
func (s *shelf) OpenJournal(context.Context, rollout.EpisodeRef, int) (buffer.Journal, error) {
	return s, nil
}

func (s *shelf) Checkpoint() *rollout.Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

func (s *shelf) Answers() map[string]buffer.Answer { return nil }

func (s *shelf) Answer(string, buffer.Answer) error { return nil }

func (s *shelf) Phase(_ context.Context, cp rollout.Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced != nil {
		return s.fenced
	}
	s.saved = &cp
	s.saves++
	return nil
}

func (s *shelf) End(_ context.Context, ep rollout.Episode, _ []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = &ep
	return nil
}

func (s *shelf) Close() {}

func (s *shelf) AttemptFailed(_ context.Context, t runstatus.FailedAttempt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = append(s.failed, t.Code)
	s.tells(buffer.FailedFact(t))
	return nil
}

func (s *shelf) GameFinished(context.Context, rollout.RunName, time.Time, map[string]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished++
	return nil
}

func (s *shelf) GameAdvanced(context.Context, rollout.RunName, time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanced++
	return nil
}

// moody is tic-tac-toe that does something else first when it draws a scenario, warms up or applies the answers of
// a phase.
type moody struct {
	episode.Warmer
	first func(call string)
}

type moodyGame struct {
	episode.Game
	first func(call string)
}

func (m moody) Scenario(seed int64) ([]byte, error) {
	m.first("scenario")
	return m.Warmer.Scenario(seed)
}

func (m moody) Start(scenario []byte, seed int64, sample int) (episode.Game, error) {
	g, err := m.Warmer.Start(scenario, seed, sample)
	return moodyGame{g, m.first}, err
}

func (m moody) WarmUp(seed int64) (episode.Game, error) {
	g, err := m.Warmer.WarmUp(seed)
	return moodyGame{g, m.first}, err
}

func (g moodyGame) Act(answers map[string]string) (episode.Outcome, error) {
	g.first("act")
	return g.Game.Act(answers)
}

// oneEngine is a fleet of one engine.
type oneEngine struct {
	Fleet
	serves string
	starts bool // it was bought, and does not answer yet
}

func (o *oneEngine) Scaled(context.Context) (*supply.View, error) {
	if !o.starts {
		return nil, nil //nolint:nilnil // nobody scales the fleet
	}
	return &supply.View{Provider: "process", Wanted: 1, Actual: scaling.Engines{Starting: 1}}, nil
}

func (o *oneEngine) List(context.Context) ([]enginestate.Engine, error) {
	if o.starts {
		return []enginestate.Engine{{ID: "e1", State: enginestate.EngineStarting}}, nil
	}
	return []enginestate.Engine{{ID: "e1", State: enginestate.EngineReady, Models: []string{o.serves}}}, nil
}

// stand is one activity under test, in a bubble of fake time.
type stand struct {
	t      *testing.T
	acts   *Activities
	env    *testsuite.TestActivityEnvironment
	buffer *shelf
	fleet  oneEngine
	plan   GroupPlan
	began  time.Time

	mu    sync.Mutex
	beats []time.Duration // when, from the start
	told  []any           // by the latest
	// temporal is what it says to a heartbeat; nil: that it has heard.
	temporal func(context.Context) error
	events   []telemetry.Event
}

// onStand runs f with a stand whose environment does first before its calls, and whose engine takes exec after a
// wait in the queue.
func onStand(t *testing.T, options string, first func(call string), queue, exec time.Duration, f func(*stand)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stand{
			t: t, buffer: &shelf{}, fleet: oneEngine{serves: "base"}, began: time.Now(),
			plan: GroupPlan{
				Ref: rollout.GroupRef{Run: "demo", Seq: 4}, Model: "base",
				Environment: runspec.Environment{Kind: tictactoe.Kind, Options: json.RawMessage(options)},
				Timeouts: runspec.Timeouts{
					Completion: rollout.Duration(10 * time.Second), Episode: rollout.Duration(time.Hour),
					Heartbeat: rollout.Duration(30 * time.Second), Phase: rollout.Duration(20 * time.Second),
				},
			},
		}
		s.acts = &Activities{
			DescribeGame: func(context.Context, rollout.EpisodeRef, rollout.PolicyVersion) {},
			Buffer:       s.buffer, Fleet: &s.fleet, Policy: paced{queue, exec}, Now: time.Now,
			Log: slog.New(slog.DiscardHandler),
			Environments: func(e runspec.Environment) (episode.Environment, error) {
				env, err := tictactoe.FromOptions(e.Options)
				return moody{env, first}, err
			},
		}
		s.buffer.tells = func(e telemetry.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		}
		s.acts.Emit, s.acts.Tell = telemetry.EmitterFunc(s.buffer.tells), telemetry.EmitterFunc(s.buffer.tells)
		s.acts.Heartbeats = s
		s.env = s.newEnv()
		f(s)
	})
}

// newEnv is Temporal, for one activity.
func (s *stand) newEnv() *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(s.acts)
	env.SetTestTimeout(24 * time.Hour)
	return env
}

// RecordActivityHeartbeat is Temporal's part.
func (s *stand) RecordActivityHeartbeat(ctx context.Context, _ []byte, details ...any) error {
	s.mu.Lock()
	s.beats = append(s.beats, time.Since(s.began))
	s.told = details
	temporal := s.temporal
	s.mu.Unlock()
	if temporal == nil {
		return nil
	}
	return temporal(ctx)
}

// paced answers with an allowed choice, one token each, after a wait in the queue and an execution.
type paced struct{ queue, exec time.Duration }

func (p paced) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	select {
	case <-time.After(p.queue + p.exec):
	case <-ctx.Done():
		return rollout.Completion{}, rollout.Fail(rollout.Retryable, "cancelled", ctx.Err())
	}
	return rollout.Completion{
		Text: req.Constraint.Choices[0], PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{-1},
		FinishReason: rollout.FinishStop, Model: req.Model, Engine: "e1",
		Timing: rollout.Timing{QueueSec: p.queue.Seconds(), ExecSec: p.exec.Seconds(), Attempts: 1},
	}, nil
}

// failure is the only event, which must tell of a failure.
func (s *stand) failure() telemetry.EpisodeFailed {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed()
}

// failed is failure with the stand's lock.
func (s *stand) failed() telemetry.EpisodeFailed {
	s.t.Helper()
	if len(s.events) != 1 {
		s.t.Fatalf("%d events, want one: %+v", len(s.events), s.events)
	}
	failed, ok := s.events[0].Body.(telemetry.EpisodeFailed)
	if !ok {
		s.t.Fatalf("event %+v, want a failed episode", s.events[0])
	}
	return failed
}

func (s *stand) play() error {
	_, err := s.env.ExecuteActivity(s.acts.PlayEpisode, EpisodeInput{Plan: s.plan, Sample: 2})
	return err
}

func wantCode(t *testing.T, err error, code rollout.Code, final bool) {
	t.Helper()
	if Code(err) != code || Final(err) != final {
		t.Errorf("got %v (%s, final %v), want %s, final %v", err, Code(err), Final(err), code, final)
	}
}

// A game whose environment hangs tells Temporal that it goes on until its phase's time is over, and then fails. What it
// leaves behind is counted for as long as it hangs, and does nothing more.
func TestGameIsLeftBehindWhenItsEnvironmentHangs(t *testing.T) {
	var hang chan struct{}
	calls := 0
	onStand(t, "", func(call string) {
		if calls++; call == "act" && calls > 2 { // the second move
			<-hang
		}
	}, 0, time.Second, func(s *stand) {
		hang = make(chan struct{}) // of the bubble
		err := s.play()
		wantCode(t, err, rollout.CodeEnvironmentHung, false)
		// 2 s of engines, 18 s of hanging that are left of the phase, and a quarter of its limit until it is noticed.
		if took := time.Since(s.began); took < 21*time.Second || took > 26*time.Second {
			t.Errorf("failed after %v", took)
		}
		failed := s.failure()
		if failed.Code != rollout.CodeEnvironmentHung || failed.Final || failed.Usage.Requests != 2 ||
			failed.Usage.OutputTokens != 2 {
			t.Errorf("event %+v, want two requests of two tokens", failed)
		}
		if !strings.Contains(failed.Failure, "act has not returned") || !strings.Contains(failed.Failure, "timeouts.phase") {
			t.Errorf("the failure says %q", failed.Failure)
		}
		if n := s.acts.HangingCalls.Count(); n != 1 || s.buffer.saves != 1 {
			t.Errorf("%d calls hang, %d saves; want 1 and 1", n, s.buffer.saves)
		}
		close(hang)
		synctest.Wait()
		if n := s.acts.HangingCalls.Count(); n != 0 || s.buffer.saves != 1 || s.buffer.ended != nil {
			t.Errorf("after the call returned, %d hang, %d saves, finished %v", n, s.buffer.saves, s.buffer.ended)
		}
	})
}

// A game that waits for its turn, or whose environment is slow within its time, goes on telling so.
func TestWaitingGamesBeat(t *testing.T) {
	for name, tt := range map[string]struct{ queue, env time.Duration }{
		"in the queue":           {queue: time.Minute},
		"for a slow environment": {env: 45 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onStand(t, "", func(call string) {
				if call == "act" {
					time.Sleep(tt.env)
				}
			}, tt.queue, time.Second, func(s *stand) {
				s.plan.Timeouts.Phase = rollout.Duration(50 * time.Second)
				s.plan.Timeouts.Heartbeat = rollout.Duration(40 * time.Second) // the test environment passes on one per 30 s
				if err := s.play(); err != nil {
					t.Fatal(err)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				silent, last := time.Duration(0), time.Duration(0)
				for _, at := range append(s.beats, time.Since(s.began)) {
					silent, last = max(silent, at-last), at
				}
				if limit := s.plan.Timeouts.Heartbeat.Std(); silent >= limit {
					t.Errorf("silent for %v; after %v it is taken for dead", silent, limit)
				}
			})
		})
	}
}

func TestPhaseDeadlineIsTriedAgain(t *testing.T) {
	onStand(t, "", func(string) {}, 5*time.Minute, 21*time.Second, func(s *stand) {
		s.buffer.saved = &rollout.Checkpoint{
			PhaseIndex: 1, Game: []byte(`{"moves":[0]}`),
			Episode: rollout.Episode{Phases: 1, Usage: rollout.Usage{Requests: 1, OutputTokens: 7}},
		}
		wantCode(t, s.play(), rollout.CodePhaseDeadline, false)
		if failed := s.failure(); failed.Code != rollout.CodePhaseDeadline || failed.Usage.OutputTokens != 8 ||
			!strings.Contains(failed.Failure, "21.0 s at engines for O") {
			t.Errorf("event %+v", failed)
		}
	})
}

// What is cancelled, and what was taken for dead, is told apart, with the tokens that it had cost. That a worker
// stops is no failure.
func TestGamesThatEndWithoutFailing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cause error // nil: the worker stops
		over  bool  // the group is, as the buffer knows
		code  rollout.Code
		final bool
	}{
		{"cancelled", temporal.NewCanceledError(), false, rollout.CodeCancelled, true},
		{"the group is over", errors.New("workflow execution already completed"), true, rollout.CodeCancelled, true},
		{"reset by somebody", activity.ErrActivityReset, false, rollout.CodeSuperseded, false},
		{"out of time", context.DeadlineExceeded, false, "timeout", false},
		{"worker stops", nil, false, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onStand(t, "", func(string) {}, 0, 4*time.Second, func(s *stand) {
				s.buffer.over = tt.over
				ctx, end := context.WithCancelCause(context.Background())
				defer end(nil)
				if tt.cause == context.DeadlineExceeded {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
					defer cancel()
				}
				stopping := make(chan struct{})
				s.env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
				s.env.SetWorkerStopChannel(stopping)
				time.AfterFunc(10*time.Second, func() {
					switch tt.cause {
					case nil:
						close(stopping)
					case context.DeadlineExceeded: // its own timer fires at this very moment
					default:
						end(tt.cause)
					}
				})
				err := s.play()
				if took := time.Since(s.began); took != 10*time.Second {
					t.Errorf("it took %v to end", took)
				}
				if tt.cause == nil {
					wantCode(t, err, rollout.CodeWorkerStopped, false)
					if len(s.events) != 0 || s.buffer.excused != 1 {
						t.Errorf("events %+v, %d attempts excused", s.events, s.buffer.excused)
					}
					return
				}
				if err == nil || Final(err) {
					t.Errorf("got %v", err)
				}
				if failed := s.failure(); failed.Code != tt.code || failed.Final != tt.final || failed.Usage.OutputTokens != 2 ||
					failed.Ref.Sample != 2 {
					t.Errorf("event %+v, want %s with the two tokens of 8 s", failed, tt.code)
				}
			})
		})
	}
}

// A surplus game often comes to the end of a phase before Temporal tells it that its group is ready: the buffer
// says so first.
func TestFencedGamesAreCancelledOrSuperseded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		over  bool
		code  rollout.Code
		final bool
	}{
		{"the group is over", true, rollout.CodeCancelled, true},
		{"another attempt plays it", false, rollout.CodeSuperseded, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onStand(t, "", func(string) {}, 0, time.Second, func(s *stand) {
				s.buffer.over = tt.over
				s.buffer.fenced = rollout.Refuse(rollout.Fenced, "nothing can be added")
				wantCode(t, s.play(), rollout.Code(rollout.Fenced), true)
				if failed := s.failure(); failed.Code != tt.code || failed.Final != tt.final || failed.Usage.OutputTokens != 1 {
					t.Errorf("event %+v, want %s", failed, tt.code)
				}
				if len(s.buffer.failed) > 0 {
					t.Errorf("attempts that did not fail are counted as failed: %v", s.buffer.failed)
				}
			})
		})
	}
}

// A game that fails again and again is given up; that of an attempt that others have finished is done.
func TestAttemptsEnd(t *testing.T) {
	onStandOf(t, "the last try fails", 30*time.Second, func(s *stand) {
		s.buffer.begun = buffer.Attempt{Number: 31, Counted: maxAttempts, Excused: 11}
		wantCode(t, s.play(), rollout.CodePhaseDeadline, true)
	})
	onStandOf(t, "a worker dies in the last try", time.Second, func(s *stand) {
		s.buffer.begun = buffer.Attempt{Number: 32, Counted: maxAttempts + 1, Excused: 11}
		wantCode(t, s.play(), "timeout", true)
	})
	onStandOf(t, "finished", time.Second, func(s *stand) {
		s.buffer.begun = buffer.Attempt{Finished: true}
		if err := s.play(); err != nil || s.buffer.ended != nil {
			t.Errorf("%v, finished again: %v", err, s.buffer.ended)
		}
	})
}

// onStandOf is onStand with an engine that takes exec, and an environment that does nothing else.
func onStandOf(t *testing.T, name string, exec time.Duration, f func(*stand)) {
	t.Run(name, func(t *testing.T) { onStand(t, "", func(string) {}, 0, exec, f) })
}

func TestPanicsEndTheirGameAlone(t *testing.T) {
	t.Run("environment", func(t *testing.T) {
		onStand(t, "", func(call string) {
			if call == "act" {
				panic("the board fell off the table")
			}
		}, 0, time.Second, func(s *stand) {
			wantCode(t, s.play(), rollout.CodeEnvironmentPanic, true)
			if !slices.Equal(s.buffer.failed, []rollout.Code{rollout.CodeEnvironmentPanic}) || s.buffer.finished > 0 {
				t.Errorf("counted: failed %v, finished %d", s.buffer.failed, s.buffer.finished)
			}
			if failed := s.failure(); !failed.Final || failed.Usage.OutputTokens != 1 ||
				!strings.Contains(failed.Failure, "the board fell off the table (run_game_with_heartbeat_test.go:") {
				t.Errorf("event %+v", failed)
			}
		})
	})
	t.Run("anything else", func(t *testing.T) {
		onStand(t, "", func(string) {}, 0, 0, func(s *stand) {
			s.acts.Environments = nil // a broken program
			wantCode(t, s.play(), "panic", false)
			if failed := s.failure(); failed.Code != "panic" || failed.Final {
				t.Errorf("event %+v", failed)
			}
		})
	})
}

// A warm-up fails as games do, and says so.
func TestFailedWarmUpsAreReported(t *testing.T) {
	onStand(t, `{"opening_moves": 4, "opening_played": true}`, func(call string) {
		if call == "act" {
			panic("no opening")
		}
	}, 0, time.Second, func(s *stand) {
		_, err := s.env.ExecuteActivity(s.acts.WarmUpGroup, s.plan)
		wantCode(t, err, rollout.CodeEnvironmentPanic, true)
		if failed := s.failure(); failed.Usage.OutputTokens != 1 || !strings.Contains(failed.Failure, "warm-up") {
			t.Errorf("event %+v", failed)
		}
		if key := s.events[0].Key; key != "demo/4/warm-up/failed/1" {
			t.Errorf("key %q is, or may become, another attempt's", key)
		}
	})
}

// An environment that hangs where a group begins is told from a worker that died, so that its group is not prepared
// forever.
func TestScenarioThatHangsFailsInTime(t *testing.T) {
	var hang chan struct{}
	onStand(t, "", func(string) { <-hang }, 0, 0, func(s *stand) {
		hang = make(chan struct{})                      // of the bubble
		s.plan.Timeouts.Phase = s.plan.Timeouts.Episode // an hour; the activity has ten minutes
		_, err := s.env.ExecuteActivity(s.acts.PrepareGroup, s.plan)
		wantCode(t, err, rollout.CodeEnvironmentHung, false)
		if !slices.Equal(s.buffer.failed, []rollout.Code{rollout.CodeEnvironmentHung}) {
			t.Errorf("counted as failed: %v", s.buffer.failed)
		}
		close(hang)
	})
}

// A group that cannot begin counts as a failed try, with its error: no game of it is tried, and nothing else would tell
// why the run stands still.
func TestScenarioThatFailsIsCounted(t *testing.T) {
	onStand(t, "", func(string) { panic("no such file") }, 0, 0, func(s *stand) {
		_, err := s.env.ExecuteActivity(s.acts.PrepareGroup, s.plan)
		wantCode(t, err, rollout.CodeEnvironmentPanic, true)
		if !slices.Equal(s.buffer.failed, []rollout.Code{rollout.CodeEnvironmentPanic}) {
			t.Errorf("counted as failed: %v", s.buffer.failed)
		}
		if told := fmt.Sprint(s.events); !strings.Contains(told, "no such file") {
			t.Errorf("told: %s", told)
		}
	})
}
