package mailbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/mailbox"
	"github.com/millrace/millrace/internal/store/redistest"
)

// played is a game, as its worker has it, and the programs that play it.
type played struct {
	t    *testing.T
	rdb  redis.UniversalClient
	box  *mailbox.Box
	ref  rollout.EpisodeRef
	game episode.Awaited
	at   int // attempt
	made int // answers of engines

	patience time.Duration // of a worker to which nobody calls
}

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// servers are those on which games are played: their Lua differs.
var servers = map[string]func(t testing.TB) redis.UniversalClient{
	"miniredis": func(t testing.TB) redis.UniversalClient { return redistest.Client(t, miniredis.RunT(t).Addr(), 0) },
	"redis":     redistest.Real,
}

func begun(t *testing.T, rdb redis.UniversalClient, maxCalls int) *played {
	t.Helper()
	p := &played{t: t, rdb: rdb, box: mailbox.New(rdb, ""), at: 1, patience: 10 * time.Millisecond,
		ref: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 3}}}
	env, err := external.FromOptions(fmt.Appendf(nil, `{"agents": ["a", "b"], "max_calls": %d}`, maxCalls))
	p.ok(err)
	env.(*external.Env).Use(p.box)
	game, err := env.Start([]byte(`{"seed": 7}`), 1, 0)
	p.ok(err)
	p.game = game.(episode.Awaited)
	_, err = p.box.Look(t.Context(), external.Attempt{EpisodeRef: p.ref}, []byte(`{"seed": 7}`))
	p.ok(err)
	return p
}

func (p *played) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// lease leases the game, which is free a moment later unless the program is heard of.
func (p *played) lease(key string) {
	p.t.Helper()
	for range 1000 {
		leased, err := p.box.Lease(p.t.Context(), p.ref.Run, key, 20*time.Millisecond)
		p.ok(err)
		if leased != nil {
			return
		}
		time.Sleep(time.Millisecond) // Redis has the clock
	}
	p.t.Fatal("the game is not open")
}

// call has a program ask something, and the worker play until it is answered.
func (p *played) call(key, agent, text string) (answer string) {
	p.t.Helper()
	return p.post(key, external.Call{Agent: agent, Hash: text, Prompt: text})
}

func (p *played) done(key string, rewards map[string]float64) string {
	p.t.Helper()
	hash, _ := json.Marshal(rewards)
	return p.post(key, external.Call{Hash: string(hash), End: &external.Ending{Rewards: rewards, Hash: string(hash)}})
}

func (p *played) post(key string, call external.Call) string {
	p.t.Helper()
	for {
		a, err := p.box.Post(p.t.Context(), p.ref, key, call)
		switch {
		case errors.Is(err, mailbox.ErrEnded), errors.Is(err, mailbox.ErrOver):
			return err.Error()
		case err != nil:
			p.t.Fatal(err)
		case a != nil && a.Fault != "":
			return a.Fault
		case a != nil:
			return a.Text
		}
		p.phase()
	}
}

// phase plays what the game has come to.
func (p *played) phase() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), p.patience)
	defer cancel()
	if _, err := p.game.Await(ctx, p.ref, p.at, time.Hour); errors.Is(err, context.DeadlineExceeded) {
		return
	} else {
		p.ok(err)
	}
	prompts, err := p.game.Prompts()
	p.ok(err)
	for _, prompt := range prompts {
		p.made++
		p.game.Answered(prompt.Agent, rollout.Completion{Text: fmt.Sprintf("%s %d", prompt.Text, p.made)}, nil)
	}
	if !p.game.Done() {
		outcome, err := p.game.Act(nil)
		p.ok(err)
		for _, news := range outcome.News { // as the journal does
			p.ok(p.rdb.Publish(p.t.Context(), news.Channel, news.Text).Err())
		}
	}
}

// resume has another worker go on from the checkpoint.
func (p *played) resume() {
	p.t.Helper()
	saved, err := p.game.Checkpoint()
	p.ok(err)
	env, err := external.FromOptions([]byte(`{"agents": ["a", "b"]}`))
	p.ok(err)
	env.(*external.Env).Use(p.box)
	game, err := env.Resume(saved)
	p.ok(err)
	p.game = game.(episode.Awaited)
	p.at++
}

func (p *played) want(got, want string) {
	p.t.Helper()
	if got != want && (want == "" || !strings.Contains(got, want)) {
		p.t.Errorf("got %q, want %q", got, want)
	}
}

// What a game's programs can rely on.
func TestGames(t *testing.T) {
	t.Parallel()
	both := map[string]float64{"a": 1, "b": 2}
	for name, play := range map[string]func(p *played){
		"the same is the same call, and something else is another": func(p *played) {
			p.lease("one")
			p.want(p.call("one", "a", "x"), "x 1")
			p.want(p.call("one", "a", "x"), "x 1")
			p.want(p.call("one", "b", "x"), "x 2")
			p.want(p.call("one", "a", "y"), "y 3")
			p.want(p.call("one", "a", "x"), "x 1")
		},
		"a second program is answered as the first one was for as long as it asks the same": func(p *played) {
			p.lease("one")
			for i, text := range []string{"x", "y", "z"} {
				p.want(p.call("one", "a", text), fmt.Sprintf("%s %d", text, i+1))
			}
			p.lease("two")
			p.want(p.call("one", "a", "x"), "the lease has ended")
			p.want(p.done("one", both), "the lease has ended")
			p.want(p.call("two", "a", "x"), "x 1")
			p.want(p.call("two", "a", "other"), "other 4")
			p.want(p.done("two", both), "")
			if got := p.game.Turns("a"); got != 2 {
				p.t.Errorf("the game has %d turns, want those of its last program", got)
			}
		},
		"what the last program has not been answered is no part of the game": func(p *played) {
			p.lease("one")
			p.call("one", "a", "x")
			p.call("one", "a", "y")
			p.call("one", "b", "x")
			p.lease("two")
			p.call("two", "a", "x")
			p.done("two", both)
			if a, b := p.game.Turns("a"), p.game.Turns("b"); a != 1 || b != 0 {
				p.t.Errorf("%d and %d turns", a, b)
			}
			result, err := p.game.Result()
			p.ok(err)
			p.want(fmt.Sprint(result.Rewards), "map[a:1 b:2]")
		},
		"an end that is none changes nothing, and the first that is one stands": func(p *played) {
			p.lease("one")
			p.want(p.done("one", map[string]float64{"a": 1}), "there is none for the agent b")
			p.want(p.done("one", map[string]float64{"a": 1, "b": 1, "c": 1}), "c is none of the run's agents")
			p.want(p.call("one", "a", "x"), "x 1")
			p.want(p.done("one", both), "")
			p.want(p.done("one", both), "")
			p.want(p.done("one", map[string]float64{"a": 9, "b": 9}), "the game is over")
			p.want(p.call("one", "a", "y"), "the game is over")
		},
		"a game in which the model was never asked has no end": func(p *played) {
			p.lease("one")
			p.want(p.done("one", both), "nothing to learn from")
			p.call("one", "b", "x")
			p.lease("two")
			p.want(p.done("two", both), "nothing to learn from")
			p.call("two", "b", "x")
			p.want(p.done("two", both), "")
		},
		"a worker that answers late takes no place back": func(p *played) {
			p.lease("one")
			p.call("one", "a", "x")
			p.call("one", "a", "y")
			late := external.Call{Agent: "a", Hash: "x"}
			at := external.Attempt{EpisodeRef: p.ref, Number: p.at}
			_, err := p.box.Answer(p.t.Context(), at, "one", late, 1, external.Answer{Text: "x 1"}, nil)
			p.ok(err)
			p.want(p.call("one", "a", "z"), "z 3")
			p.call("one", "b", "x")
			p.done("one", both)
			if got := p.game.Turns("a"); got != 3 {
				p.t.Errorf("%d turns, want all 3", got)
			}
		},
		"an agent has so many calls": func(p *played) {
			p.lease("one")
			for _, text := range []string{"x", "y", "z"} {
				p.call("one", "a", text)
			}
			p.want(p.call("one", "a", "more"), "max_calls")
			p.want(p.call("one", "a", "z"), "z 3")
		},
		"a large call is not told, but looked for": func(p *played) {
			heard := p.rdb.PSubscribe(p.t.Context(), "millrace:mail:*")
			defer func() { _ = heard.Close() }()
			_, err := heard.Receive(p.t.Context()) // it hears
			p.ok(err)
			p.lease("one")
			large := strings.Repeat("x", 1<<18)
			p.patience = 2 * time.Second // the race detector makes Lua slow
			p.want(p.call("one", "a", large), large+" 1")
			told, err := heard.ReceiveMessage(p.t.Context())
			p.ok(err)
			p.want(told.Payload, p.ref.String()+"\n")
		},
		"a game that engines answer for long is played": func(p *played) {
			p.lease("one")
			ctx, seen := p.t.Context(), "millrace:{demo}:external:seen"
			absent := func() bool {
				_, err := p.box.Post(ctx, p.ref, "one", external.Call{})
				return errors.Is(err, mailbox.ErrAbsent)
			}
			p.ok(p.rdb.ZAdd(ctx, seen, redis.Z{Score: 1, Member: "3-0"}).Err())
			if !absent() {
				p.t.Error("a worker is there that has not looked since 1970")
			}
			p.ok(p.box.Alive(ctx, p.ref))
			if absent() {
				p.t.Error("a worker is absent that says it is not")
			}
			p.ok(p.rdb.ZRem(ctx, seen, "3-0").Err()) // the game is over
			p.ok(p.box.Alive(ctx, p.ref))
			if got, err := p.rdb.ZRange(ctx, seen, 0, -1).Result(); len(got) > 1 {
				p.t.Errorf("%v are played, %v", got, err)
			}
		},
		"a call that the mail has lost is sent whole again": func(p *played) {
			p.lease("one")
			call := external.Call{Agent: "a", Hash: "x", Prompt: "x"}
			post := func() {
				_, err := p.box.Post(p.t.Context(), p.ref, "one", call)
				p.ok(err)
			}
			post()
			p.ok(p.rdb.HDel(p.t.Context(), "millrace:{demo}:external:game:3-0", "call:a/x").Err())
			call.Posted = true
			post()
			post()
			p.want(p.post("one", call), "x 1")
		},
		"an answer of which the program was told before the worker died is part of the game": func(p *played) {
			p.lease("one")
			_, err := p.box.Post(p.t.Context(), p.ref, "one", external.Call{Agent: "a", Hash: "x", Prompt: "x"})
			p.ok(err)
			p.phase() // it is told, and the mail does not have it
			p.resume()
			p.want(p.call("one", "a", "y"), "y 2")
			p.want(p.call("one", "b", "x"), "x 3")
			p.want(p.done("one", both), "")
			if got := p.game.Turns("a"); got != 2 {
				p.t.Errorf("the game has %d turns, want both", got)
			}
		},
		"calls have the order in which they were made, also by servers of the version before": func(p *played) {
			p.lease("one")
			_, err := p.box.Post(p.t.Context(), p.ref, "one", external.Call{Agent: "a", Hash: "x", Prompt: "x"})
			p.ok(err)
			p.phase()
			p.resume()
			game := "millrace:{demo}:external:game:3-0"
			p.ok(p.rdb.HSet(p.t.Context(), game, "call:a/y", fmt.Sprint(p.rdb.HIncrBy(p.t.Context(), game, "posted", 1).Val(),
				` {"agent": "a", "hash": "y", "prompt": "y"}`)).Err())
			p.want(p.call("one", "a", "y"), "y 2")
			p.want(p.call("one", "a", "x"), "x 1")
		},
		"an attempt that a later one has overtaken answers nothing": func(p *played) {
			p.lease("one")
			slow, attempt := p.game, p.at
			p.resume()
			p.call("one", "a", "x")
			_, err := p.box.Post(p.t.Context(), p.ref, "one", external.Call{Hash: "end", End: &external.Ending{Rewards: both}})
			p.ok(err)
			ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
			defer cancel()
			if _, err := slow.Await(ctx, p.ref, attempt, time.Hour); !rollout.Refused(err, rollout.Fenced) {
				p.t.Errorf("the overtaken attempt goes on: %v", err)
			}
		},
		"a mail that Redis has lost is empty": func(p *played) {
			p.lease("one")
			_, err := p.box.Post(p.t.Context(), p.ref, "one", external.Call{Agent: "a", Hash: "x", Prompt: "x"})
			p.ok(err)
			p.phase()
			p.ok(p.rdb.FlushDB(p.t.Context()).Err())
			p.phase() // what was told is answered to nobody
			p.phase() // and the game is offered again
			p.lease("two")
			p.want(p.call("two", "a", "x"), "x 1")
		},
		"a worker that goes on from the checkpoint answers as the one before": func(p *played) {
			p.lease("one")
			p.call("one", "a", "x")
			p.resume()
			p.lease("two")
			p.want(p.call("two", "a", "x"), "x 1")
			p.want(p.call("two", "a", "y"), "y 2")
		},
	} {
		for server, client := range servers {
			t.Run(name+" on "+server, func(t *testing.T) {
				t.Parallel()
				play(begun(t, client(t), 3))
			})
		}
	}
}

// Between two processes a call is posted once, and looked for not at all: calls and answers are told to who waits, also
// what was answered to a program before.
func TestCallsAndAnswersAreTold(t *testing.T) {
	t.Parallel()
	const calls = 20
	p := begun(t, redistest.Real(t), calls)
	server := mailbox.New(p.rdb, "")
	ctx, stop := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() {
		for !p.game.Done() && ctx.Err() == nil {
			p.phase()
		}
	})
	posts := 0
	for i := range 2 * calls {
		lease := fmt.Sprint(i / calls)
		if i%calls == 0 {
			p.lease(lease)
		}
		i %= calls
		call := external.Call{Agent: "a", Hash: fmt.Sprint(i), Prompt: fmt.Sprint("question ", i)}
		answer, err := server.AwaitAnswer(ctx, p.ref, lease, call, func() (*external.Answer, error) {
			posts++
			return server.Post(ctx, p.ref, lease, call)
		})
		p.ok(err)
		p.want(answer.Text, fmt.Sprintf("question %d %d", i, i+1))
	}
	stop()
	worker.Wait()
	if posts >= 3*calls { // each is posted again after LookEvery, on a machine that is so slow
		t.Errorf("%d calls were posted %d times", 2*calls, posts)
	}
}
