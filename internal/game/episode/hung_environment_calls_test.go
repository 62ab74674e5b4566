package episode_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// moody is an environment of which each call does something else first: hang, sleep or panic.
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
	m.first("start")
	g, err := m.Warmer.Start(scenario, seed, sample)
	return moodyGame{g, m.first}, err
}

func (m moody) Resume(checkpoint []byte) (episode.Game, error) {
	m.first("resume")
	g, err := m.Warmer.Resume(checkpoint)
	return moodyGame{g, m.first}, err
}

func (m moody) WarmUp(seed int64) (episode.Game, error) {
	m.first("warm_up")
	g, err := m.Warmer.WarmUp(seed)
	return moodyGame{g, m.first}, err
}

func (m moody) Fork(checkpoint []byte) ([]byte, error) {
	m.first("fork")
	return m.Warmer.Fork(checkpoint)
}

func (g moodyGame) Phase() string {
	g.first("phase")
	return g.Game.Phase()
}

func (g moodyGame) Prompts() ([]episode.Prompt, error) {
	g.first("prompts")
	return g.Game.Prompts()
}

func (g moodyGame) Act(answers map[string]string) (episode.Outcome, error) {
	g.first("act")
	return g.Game.Act(answers)
}

func (g moodyGame) Checkpoint() ([]byte, error) {
	g.first("checkpoint")
	return g.Game.Checkpoint()
}

func (g moodyGame) Result() (episode.Result, error) {
	g.first("result")
	return g.Game.Result()
}

// limit is how long a phase may take in these tests.
const limit = 10 * time.Second

func limited(attempt int) episode.Plan {
	p := plan(attempt)
	p.Timeouts.Phase = rollout.Duration(limit)
	return p
}

// watched is a player in real time, which is synctest's, of an environment that does first before each call.
func watched(e episode.Policy, b *book, env episode.Warmer, first func(call string)) *episode.Player {
	return &episode.Player{
		Environment: moody{env, first}, Policy: e, Journal: b, Watch: &episode.Watch{},
		Beat: func(int, string) {}, Now: time.Now,
	}
}

// begin plays a game from its start.
func begin(t *testing.T, p *episode.Player, plan episode.Plan) (rollout.Episode, error) {
	ep, _, err := p.Play(t.Context(), plan, scenario(t), nil)
	return ep, err
}

func wantFailure(t *testing.T, err error, kind rollout.FailureKind, code rollout.Code, says ...string) {
	t.Helper()
	var failure *rollout.Failure
	if !errors.As(err, &failure) || failure.Kind != kind || failure.Code != code {
		t.Fatalf("got %v (%s), want a %s failure %s", err, rollout.KindOf(err), kind, code)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// A game whose environment hangs, in whichever call, is left behind when its phase's time is over and no earlier. When
// the call returns after all, the game ends without another call, request or save.
func TestHungEnvironmentIsLeftBehind(t *testing.T) {
	t.Parallel()
	play := func(ctx context.Context, p *episode.Player, start []byte) error {
		_, _, err := p.Play(ctx, limited(1), start, nil)
		return err
	}
	resume := func(ctx context.Context, p *episode.Player, start []byte) error {
		_, _, err := p.Play(ctx, limited(1), nil, &rollout.Checkpoint{PhaseIndex: 0, Game: start})
		return err
	}
	warmUp := func(ctx context.Context, p *episode.Player, _ []byte) error {
		_, err := p.WarmUp(ctx, limited(1), p.Environment.(episode.Warmer), nil)
		return err
	}
	draw := func(_ context.Context, p *episode.Player, _ []byte) error {
		_, err := p.Scenario(limited(1))
		return err
	}
	for call, run := range map[string]func(context.Context, *episode.Player, []byte) error{
		"start": play, "phase": play, "prompts": play, "act": play, "checkpoint": play, "result": play,
		"resume": resume, "warm_up": warmUp, "fork": warmUp, "scenario": draw,
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			start := scenario(t)
			env := opening(t)
			synctest.Test(t, func(t *testing.T) {
				hang, calls, before := make(chan struct{}), 0, 0
				e, b := &engine{}, &book{}
				p := watched(e, b, env, func(name string) {
					calls++
					if name == call {
						before = calls
						<-hang
					}
				})
				ended := make(chan error, 1)
				go func() { ended <- run(t.Context(), p, start) }()

				time.Sleep(limit)
				if err := p.Watch.Leave(time.Now()); err != nil {
					t.Errorf("left behind within its time: %v", err)
				}
				time.Sleep(time.Second)
				err := p.Watch.Leave(time.Now())
				wantFailure(t, err, rollout.Retryable, rollout.CodeEnvironmentHung, call, "11.0 s", "timeouts.phase", "10s")
				if again := p.Watch.Leave(time.Now()); again != err {
					t.Errorf("asked again: %v", again)
				}

				requests, saves := len(e.seen), len(*b)
				close(hang)
				if got := <-ended; !errors.Is(got, err) {
					t.Errorf("the game ended with %v, want %v", got, err)
				}
				if calls != before || len(e.seen) != requests || len(*b) != saves {
					t.Errorf("after it was left, the game made %d calls, %d requests and %d saves", calls-before,
						len(e.seen)-requests, len(*b)-saves)
				}
			})
		})
	}
}

// What engines took of a phase's time, the environment has not.
func TestEnvironmentHasTheRestOfThePhase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p := watched(&slowEngine{exec: 4 * time.Second}, &book{}, board(), func(call string) {
			if call == "act" {
				<-hang
			}
		})
		ended := make(chan error, 1)
		go func() {
			_, err := begin(t, p, limited(1))
			ended <- err
		}()
		time.Sleep(limit)
		if err := p.Watch.Leave(time.Now()); err != nil {
			t.Errorf("left behind within its time: %v", err)
		}
		time.Sleep(time.Nanosecond)
		wantFailure(t, p.Watch.Leave(time.Now()), rollout.Retryable, rollout.CodeEnvironmentHung, "6.0 s",
			"4.0 s of it were spent before")
		close(hang)
		<-ended
	})
}

// The first attempts that hang may have been a stopped process; later ones are the environment's fault.
func TestHungEnvironmentIsGivenUpInTheEnd(t *testing.T) {
	t.Parallel()
	for attempt, kind := range map[int]rollout.FailureKind{1: rollout.Retryable, 2: rollout.Retryable,
		3: rollout.GameFault} {
		synctest.Test(t, func(t *testing.T) {
			hang := make(chan struct{})
			p := watched(&engine{}, &book{}, board(), func(string) { <-hang })
			ended := make(chan error, 1)
			go func() {
				_, err := begin(t, p, limited(attempt))
				ended <- err
			}()
			time.Sleep(limit + 1)
			wantFailure(t, p.Watch.Leave(time.Now()), kind, rollout.CodeEnvironmentHung)
			close(hang)
			<-ended
		})
	}
}

// slowEngine answers late: it says that so much of the wait was execution.
type slowEngine struct {
	engine
	queue, exec time.Duration
	remembers   bool // answers at once, with the timing of an answer that was given to an earlier attempt
}

func (e *slowEngine) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	if !e.remembers {
		time.Sleep(e.queue + e.exec)
	}
	c, err := e.engine.Complete(ctx, req)
	c.Timing = rollout.Timing{QueueSec: e.queue.Seconds(), ExecSec: e.exec.Seconds(), Attempts: 1}
	return c, err
}

func TestDeadlineOfAPhase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		engine    *slowEngine
		env       time.Duration // slept in each of prompts and act
		unlimited bool
		says      []string // of the failure; nil: the game is played to its end
	}{
		{name: "slow within its time", engine: &slowEngine{exec: 4 * time.Second}, env: 2 * time.Second},
		{name: "hours in the queue are not charged", engine: &slowEngine{queue: 3 * time.Hour, exec: 9 * time.Second}},
		{name: "what an earlier attempt was answered is not charged again",
			engine: &slowEngine{exec: time.Minute, remembers: true}},
		{name: "engines", engine: &slowEngine{exec: 11 * time.Second}, says: []string{"phase X1",
			"took 11.0 s of at most 10s (timeouts.phase)", "11.0 s at engines for X", "0.0 s in the environment"}},
		{name: "environment", engine: &slowEngine{}, env: 6 * time.Second,
			says: []string{"phase X1", "took 12.0 s", "0.0 s at engines", "12.0 s in the environment"}},
		{name: "both together", engine: &slowEngine{exec: 5 * time.Second}, env: 3 * time.Second,
			says: []string{"took 11.0 s", "5.0 s at engines", "6.0 s in the environment"}},
		{name: "no deadline", engine: &slowEngine{exec: time.Minute}, env: time.Minute, unlimited: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &book{}
				p := watched(tt.engine, b, board(), func(call string) {
					if call == "prompts" || call == "act" {
						time.Sleep(tt.env)
					}
				})
				bounded := limited(1)
				if tt.unlimited {
					bounded.Timeouts = runspec.Timeouts{Episode: rollout.Duration(time.Hour)}
				}
				ep, err := begin(t, p, bounded)
				if tt.says == nil {
					if err != nil || ep.Phases == 0 || ep.EnvSec != 2*tt.env.Seconds()*float64(ep.Phases) {
						t.Errorf("played %d phases with %v s in the environment: %v", ep.Phases, ep.EnvSec, err)
					}
					return
				}
				wantFailure(t, err, rollout.Retryable, rollout.CodePhaseDeadline, tt.says...)
				if len(*b) != 0 {
					t.Error("a phase that took too long was saved")
				}
			})
		})
	}
}

// The time of a game goes on where an earlier attempt stopped, so that another attempt has none either.
func TestSpentGamesAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	short := plan(1)
	short.Timeouts.Episode = rollout.Duration(400 * time.Millisecond) // the engine takes 250 for each phase
	b := &book{}
	_, err := begin(t, player(&engine{}, b), short)
	wantFailure(t, err, rollout.GameFault, rollout.CodeEpisodeDeadline, "0.5 s", "timeouts.episode")
	short.Attempt = 2
	_, _, err = player(&engine{}, b).Play(t.Context(), short, nil, &(*b)[1])
	wantFailure(t, err, rollout.GameFault, rollout.CodeEpisodeDeadline, "0.8 s")
}

func TestPanicsOfTheEnvironmentAreItsFault(t *testing.T) {
	t.Parallel()
	var nobody *book
	for _, tt := range []struct {
		call   string
		panics func()
		says   string
	}{
		{"start", func() { panic("no such map") }, "no such map"},
		{"phase", func() { panic(fmt.Errorf("lost count")) }, "lost count"},
		{"prompts", func() { _ = (*nobody)[0] }, "nil pointer"},
		{"act", func() { _ = []int{}[len(t.Name())] }, "index out of range"},
		{"checkpoint", func() { panic("full") }, "full"},
		{"result", func() { panic("a draw?") }, "a draw?"},
	} {
		t.Run(tt.call, func(t *testing.T) {
			t.Parallel()
			p := watched(&engine{}, &book{}, board(), func(call string) {
				if call == tt.call {
					tt.panics()
				}
			})
			_, err := begin(t, p, plan(1))
			wantFailure(t, err, rollout.GameFault, rollout.CodeEnvironmentPanic, "t/4/2", tt.call, tt.says,
				"(hung_environment_calls_test.go:")
		})
	}
}
