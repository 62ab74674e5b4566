package mailbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/rollout"
)

const ttl = 3 * time.Second // of leases

var ref = rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 3}}

// world is one game and all who have to do with it. It is also the mail of its workers, so that anything may happen
// before each of their steps.
type world struct {
	*testing.T
	*rand.Rand
	*Box              // the workers'
	servers           []*Box
	redis             *miniredis.Miniredis
	told              chan miniredis.PubsubPmessage
	late              []miniredis.PubsubPmessage // told, and not heard yet
	programs          []*program                 // the last has the game
	clock             time.Time
	journal           []byte
	attempts, playing int // begun, and not ended
	steps, made       int // made are answers of engines
	final             episode.Awaited
}

// Steps after which nobody dies and nothing is told any more, and after which the game must be over.
const wild, most = 300, 3000

var errDead = errors.New("the worker has died")

// pause is before each step of a worker.
func (w *world) pause() {
	for w.final == nil && w.IntN(2) == 0 {
		if w.steps++; w.steps > most {
			w.Fatal("the game does not come to an end")
		}
		w.pass(time.Millisecond)
		switch chance := w.IntN(50); {
		case chance == 0 && w.steps < wild:
			panic(errDead)
		case chance == 1 && w.steps < wild && w.playing < 4:
			w.play() // a later attempt, of which this one does not know
		case chance < 4 && w.steps < wild || len(w.programs) == 0 || w.programs[len(w.programs)-1].ended:
			w.pass(ttl) // the program before was silent for as long
			w.lease()
		case chance == 4 && w.steps < wild:
			w.programs[w.IntN(len(w.programs))].next()
		default:
			w.programs[len(w.programs)-1].next()
		}
	}
	if w.final != nil {
		panic(errDead)
	}
}

func (w *world) Look(ctx context.Context, at external.Attempt, scenario []byte) (external.Standing, error) {
	w.pause()
	return w.Box.Look(ctx, at, scenario)
}

func (w *world) Answer(ctx context.Context, at external.Attempt, lease string, call external.Call, place int,
	a external.Answer, over *external.Ending) (external.Standing, error) {
	w.pause()
	return w.Box.Answer(ctx, at, lease, call, place, a, over)
}

func (w *world) Await(_ context.Context, ref rollout.EpisodeRef, look func(*external.Standing) (bool, error)) error {
	var told *external.Standing
	for {
		if more, err := look(told); err != nil || !more {
			return err
		}
		told = nil
		w.pause()
		if text := w.hear(w.Box, ref.String()); text != "" {
			s, err := standing(ref, text)
			w.ok(err)
			told = &s
		}
	}
}

// play is an attempt at the game, with a journal that takes nothing of an earlier one. All workers have one Box: what
// is told to one reaches another, late.
func (w *world) play() {
	w.attempts++
	w.playing++
	defer func() {
		w.playing--
		if died := recover(); died != nil && died != errDead {
			panic(died)
		}
	}()
	attempt := w.attempts
	env, err := external.FromOptions([]byte(`{"agents": ["a", "b"]}`))
	w.ok(err)
	env.(*external.Env).Use(w)
	resumed, err := env.Resume(w.journal)
	w.ok(err)
	for game := resumed.(episode.Awaited); ; {
		_, err := game.Await(w.Context(), ref, attempt, time.Hour)
		if rollout.Refused(err, rollout.Fenced) {
			return
		}
		w.ok(err)
		prompts, err := game.Prompts()
		w.ok(err)
		for _, p := range prompts {
			w.made++
			if last := w.programs[len(w.programs)-1]; attempt == w.attempts && last.heard[p.Agent+"/"+p.Text].text != "" {
				w.Fatalf("%s is generated again", p.Text)
			}
			game.Answered(p.Agent, rollout.Completion{Text: fmt.Sprint(w.made)}, nil)
		}
		w.pause()
		if attempt < w.attempts {
			return
		}
		if game.Done() {
			w.final = game
			return
		}
		outcome, err := game.Act(nil)
		w.ok(err)
		w.journal, err = game.Checkpoint()
		w.ok(err)
		for _, n := range outcome.News {
			w.redis.Publish(n.Channel, n.Text)
		}
	}
}

// hear is something of what a process was told of something, in any order; some is heard twice, and some is lost.
func (w *world) hear(box *Box, what string) string {
	w.redis.Publish("all", "")
	for m := range w.told {
		if m.Channel == "all" {
			break
		}
		w.late = append(w.late, m)
	}
	for _, i := range w.Perm(len(w.late)) {
		name, text, _ := strings.Cut(w.late[i].Message, "\n")
		switch fate := w.IntN(8); {
		case name != what || w.late[i].Channel != box.own || w.steps > wild || fate < 2:
		case fate == 2:
			return text
		default:
			w.late = slices.Delete(w.late, i, i+1)
			return text
		}
	}
	return ""
}

func (w *world) pass(d time.Duration) {
	w.clock = w.clock.Add(d)
	w.redis.SetTime(w.clock)
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// heard is an answer, and how many the program had then.
type heard struct {
	text string
	at   int
}

// program plays by a lease.
type program struct {
	*world
	lease string
	asked []external.Call
	after map[string]int // how many answers it had when it first made each call, by ID
	heard map[string]heard
	ended bool // the lease, or the game
}

func (w *world) lease() {
	p := &program{world: w, lease: fmt.Sprint(len(w.programs)), after: map[string]int{}, heard: map[string]heard{}}
	if got, err := w.servers[0].Lease(w.Context(), ref.Run, p.lease, ttl); got != nil {
		w.programs = append(w.programs, p)
	} else {
		w.ok(err)
	}
}

// next is a step: the program asks the next, or sends one of its calls again, by either server.
func (p *program) next() {
	n := len(p.asked)
	switch agent := []string{"a", "b"}[n%2]; {
	case n > 8:
	case n == 8 && len(p.heard) == n:
		p.asked = append(p.asked, external.Call{Hash: p.lease, End: &external.Ending{Hash: p.lease,
			Rewards: map[string]float64{"a": 1, "b": 2}}})
	case n < 8 && (len(p.heard) == n || p.IntN(8) == 0): // sometimes it asks something else than the one before
		text := fmt.Sprint(agent, n, p.IntN(6) == 0)
		p.asked = append(p.asked, external.Call{Agent: agent, Hash: text, Prompt: text})
		p.after[agent+"/"+text] = len(p.heard)
	}
	call := p.asked[max(p.IntN(len(p.asked)), p.IntN(len(p.asked)), p.IntN(len(p.asked)))]
	call.Posted = p.IntN(2) == 0 // it may say so, and the mail have lost it
	id, server, a := call.ID(), p.servers[p.IntN(2)], &external.Answer{}
	if told := p.hear(server, server.answerKey(ref, p.lease, id)); told != "" {
		p.ok(json.Unmarshal([]byte(told), a))
	} else {
		var err error
		a, err = server.Post(p.Context(), ref, p.lease, call)
		p.ended = p.ended || errors.Is(err, ErrEnded) || errors.Is(err, ErrOver)
		if !p.ended && !errors.Is(err, ErrAbsent) {
			p.ok(err)
		}
	}
	if a == nil || call.End != nil && a.Fault == "" {
		return
	}
	before, again := p.heard[id]
	if a.Text == "" || again && before.text != a.Text {
		p.Fatalf("lease %s was answered %q to %s, and then %+v", p.lease, before.text, id, *a)
	} else if !again {
		p.heard[id] = heard{a.Text, len(p.heard) + 1}
	}
}

// Whatever dies, is late or is lost: a call is answered in one way, what was answered is not generated again, and the
// game is what its last program was answered, in an order in which it can have been.
func TestRandomSchedules(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() { // the race detector makes Lua slow
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), redis: miniredis.RunT(t), clock: time.Now(),
				told: make(chan miniredis.PubsubPmessage, 1<<12), journal: []byte(`{"scenario": {"seed": 7}}`)}
			listener := w.redis.NewSubscriber()
			listener.Psubscribe("*")
			go func() {
				for m := range listener.Pmessages() {
					w.told <- m
				}
			}()
			rdb := redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
			defer rdb.Close()
			w.Box, w.servers = New(rdb, ""), []*Box{New(rdb, ""), New(rdb, "")}
			for w.final == nil {
				w.play()
			}
			w.judge(w.programs[len(w.programs)-1])
		})
	}
}

// judge compares the game with what its last program was answered.
func (w *world) judge(last *program) {
	checkpoint, err := w.final.Checkpoint()
	w.ok(err)
	var game struct {
		Calls map[string][]struct {
			Hash   string
			Answer external.Answer
		}
	}
	w.ok(json.Unmarshal(checkpoint, &game))
	turns := 0
	for agent, calls := range game.Calls {
		turns += len(calls)
		for i, c := range calls {
			id := agent + "/" + c.Hash
			if got := last.heard[id].text; got != c.Answer.Text {
				w.Errorf("%s is %q in the game, and its program was answered %q", id, c.Answer.Text, got)
			}
			for _, later := range calls[i:] {
				if last.heard[agent+"/"+later.Hash].at <= last.after[id] {
					w.Errorf("%s comes before %s, which was answered when it was asked", id, later.Hash)
				}
			}
		}
	}
	if turns != len(last.heard) {
		w.Errorf("the game has %d turns, and its program was answered %d calls", turns, len(last.heard))
	}
}
