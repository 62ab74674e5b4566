// Package mailbox is where programs elsewhere meet the games that they play: in Redis, so that any server takes a call
// and any worker answers it, and both may die meanwhile. A run's games that are open are in a sorted set, by when their
// leases end; each has a hash with its program's calls. Start reading at Box.
package mailbox

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/redisscript"
)

var (
	//go:embed standing.lua
	standingText string
	//go:embed look.lua
	lookText string
	//go:embed lease.lua
	leaseText string
	//go:embed post.lua
	postText string
	//go:embed answer.lua
	answerText string

	//go:embed alive.lua
	aliveText string

	aliveScript  = redisscript.New(aliveText)
	lookScript   = redisscript.New(standingText + lookText)
	leaseScript  = redisscript.New(leaseText)
	postScript   = redisscript.New(standingText + postText)
	answerScript = redisscript.New(standingText + answerText)
)

// Bounds of what is kept, and of how long a game may be without its worker before it is offered no more.
const (
	kept       = time.Hour       // after the last look or call
	keepAnswer = 2 * time.Minute // for a call that is sent again
	absent     = 15 * time.Second
)

// Box is the mailbox of all games. It is one to a process.
type Box struct {
	rdb    redis.UniversalClient
	prefix string
	own    string // channel of what is for this process alone: calls of games that it plays, answers to calls it posted

	mu      sync.Mutex
	waiting map[string][]chan string // by what they wait for: a game, an answer, or open games of a run
	hearing bool
}

var _ external.Mail = (*Box)(nil)

// New makes a Box; it does not connect.
func New(rdb redis.UniversalClient, prefix string) *Box {
	if prefix == "" {
		prefix = "millrace"
	}
	return &Box{rdb: rdb, prefix: prefix, own: prefix + ":mail:" + rand.Text(), waiting: map[string][]chan string{}}
}

func (b *Box) key(run rollout.RunName, rest string) string {
	return b.prefix + ":{" + string(run) + "}:external:" + rest
}

// keys are those of a game: the run's open games, when their workers looked last, and the game's own.
func (b *Box) keys(ref rollout.EpisodeRef) []string {
	return []string{b.key(ref.Run, "open"), b.key(ref.Run, "seen"), b.key(ref.Run, "game:"+member(ref))}
}

// member is what a game is called within its run.
func member(ref rollout.EpisodeRef) string { return fmt.Sprintf("%d-%d", ref.Seq, ref.Sample) }

// Name is what programs call a game.
func Name(ref rollout.EpisodeRef) string { return member(ref) }

// ReadName reads what Name has written.
func ReadName(run rollout.RunName, name string) (rollout.EpisodeRef, error) {
	seq, sample, _ := strings.Cut(name, "-")
	return rollout.ParseEpisodeRef(string(run) + "/" + seq + "/" + sample)
}

// channel is that of all processes.
func (b *Box) channel() string { return b.prefix + ":mail" }

// Look is what a game's worker does.
func (b *Box) Look(ctx context.Context, at external.Attempt, scenario []byte) (external.Standing, error) {
	ref := at.EpisodeRef
	text, err := lookScript.Run(ctx, b.rdb, b.keys(ref), member(ref), at.Number, kept.Milliseconds(), scenario,
		b.channel(), string(ref.Run), b.own).Text()
	if err != nil {
		return external.Standing{}, trouble("look for calls", err)
	}
	return standing(ref, text)
}

// Alive is what it does while the game's prompts are asked.
func (b *Box) Alive(ctx context.Context, ref rollout.EpisodeRef) error {
	return trouble("say that a game is played", aliveScript.Run(ctx, b.rdb, b.keys(ref)[1:2], member(ref)).Err())
}

// standing reads what standing.lua writes.
func standing(ref rollout.EpisodeRef, text string) (s external.Standing, err error) {
	if text == "" {
		return s, rollout.Refuse(rollout.Fenced, "mail of %s: a later attempt plays the game", ref)
	}
	var fields []string
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return s, fmt.Errorf("mail of %s: %w", ref, err)
	}
	s.Places = map[string]int{}
	order, from := map[string]int{}, map[string]string{}
	for f := range slices.Chunk(fields, 2) {
		if err := take(&s, f[0], f[1], order, from); err != nil {
			return s, fmt.Errorf("mail of %s: %s: %w", ref, f[0], err)
		}
	}
	for i := range s.Calls {
		s.Calls[i].From = from[s.Calls[i].ID()]
	}
	slices.SortFunc(s.Calls, func(x, y external.Call) int { return order[x.ID()] - order[y.ID()] })
	return s, nil
}

// take reads one field of a game's hash.
func take(s *external.Standing, name, value string, order map[string]int, from map[string]string) (err error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "now":
		s.Now, err = strconv.ParseInt(value, 10, 64)
	case "held":
		s.Leased = value != ""
	case "lease":
		s.Lease = value
	case "posted":
		s.Posted, err = strconv.ParseInt(value, 10, 64)
	case "over":
		err = json.Unmarshal([]byte(value), &s.Over)
	case "at":
		s.Places[rest], err = strconv.Atoi(value)
	case "from":
		from[rest] = value
	case "call":
		var call external.Call
		number, text, _ := strings.Cut(value, " ")
		if err = json.Unmarshal([]byte(text), &call); err == nil {
			order[call.ID()], err = strconv.Atoi(number)
			s.Calls = append(s.Calls, call)
		}
	}
	return err
}

// News are that a call is answered.
func (b *Box) News(ref rollout.EpisodeRef, lease string, call external.Call, a external.Answer) rollout.News {
	text, _ := json.Marshal(a) // it has nothing that cannot be JSON
	return rollout.News{Channel: cmp.Or(call.From, b.channel()),
		Text: b.answerKey(ref, lease, call.ID()) + "\n" + string(text)}
}

// Answer is what a game's worker does with a call.
func (b *Box) Answer(ctx context.Context, at external.Attempt, lease string, call external.Call, place int,
	a external.Answer, over *external.Ending) (s external.Standing, err error) {
	ref := at.EpisodeRef
	text, err := json.Marshal(a)
	if err != nil {
		return s, err
	}
	ending := []byte{}
	if over != nil {
		if ending, err = json.Marshal(over); err != nil {
			return s, err
		}
	}
	told := ""
	if call.Told {
		told = call.From
	}
	keys := append(b.keys(ref), b.answerKey(ref, lease, call.ID()))
	stands, err := answerScript.Run(ctx, b.rdb, keys, member(ref), at.Number, lease, "call:"+call.ID(),
		"at:"+call.Agent, place, text, keepAnswer.Milliseconds(), ending, b.channel(), "from:"+call.ID(), told).Text()
	if err != nil {
		return s, trouble("answer a call", err)
	}
	return standing(ref, stands)
}

func (b *Box) answerKey(ref rollout.EpisodeRef, lease, id string) string {
	return b.key(ref.Run, "game:"+member(ref)+":"+lease+":"+id)
}

// Leased is a game that a program may play.
type Leased struct {
	Ref      rollout.EpisodeRef
	Scenario json.RawMessage
	Times    int64 // that it was leased, this one included
}

// Lease gives a program the game of a run that has been open for longest; nil: none is open. The lease is known to the
// program alone.
func (b *Box) Lease(ctx context.Context, run rollout.RunName, lease string, ttl time.Duration) (*Leased, error) {
	got, err := leaseScript.Run(ctx, b.rdb, []string{b.key(run, "open"), b.key(run, "seen")}, lease, ttl.Milliseconds(),
		absent.Milliseconds(), b.key(run, "game:"), kept.Milliseconds()).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, trouble("lease a game", err)
	}
	name, _ := got[0].(string)
	scenario, _ := got[1].(string)
	times, _ := got[2].(int64)
	ref, err := ReadName(run, name)
	return &Leased{Ref: ref, Scenario: json.RawMessage(scenario), Times: times}, err
}

// Unplayed is how many games of a run are open while no program has any of them, and since when: zero, where none has
// had one lately. A run that no programs play has none.
func (b *Box) Unplayed(ctx context.Context, spec runspec.Spec) (games int64, since time.Time, err error) {
	if spec.Environment.Kind != external.Kind {
		return 0, since, nil
	}
	run := spec.Name
	pipe := b.rdb.Pipeline()
	open, last := pipe.ZCard(ctx, b.key(run, "open")), pipe.ZRangeWithScores(ctx, b.key(run, "open"), -1, -1)
	heard := pipe.ZScore(ctx, b.key(run, "seen"), "program")
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, since, trouble("count the games that no program plays", err)
	}
	ms := heard.Val()
	for _, lease := range last.Val() {
		ms = max(ms, lease.Score)
	}
	if ms > 0 {
		since = time.UnixMilli(int64(ms))
	}
	if since.After(time.Now()) {
		return 0, since, nil // a program has a game until then
	}
	return open.Val(), since, nil
}

// What becomes of a call that is posted, beside its being answered.
var (
	ErrEnded  = errors.New("the lease has ended")
	ErrOver   = errors.New("the game is over")
	ErrAbsent = errors.New("no worker plays the game at the moment")
)

// Post puts a call into a game's mail unless it is there, and returns its answer if there is one; nil: not yet. Each
// time the lease goes on. An empty call says no more than that the program lives.
func (b *Box) Post(ctx context.Context, ref rollout.EpisodeRef, lease string, call external.Call) (*external.Answer,
	error) {
	var text []byte
	hash := ""
	if call.Hash != "" && !call.Posted {
		text, _ = json.Marshal(call) // it was made of JSON
	}
	if call.End != nil {
		hash = call.Hash
	}
	keys := append(b.keys(ref), b.answerKey(ref, lease, call.ID()))
	got, err := postScript.Run(ctx, b.rdb, keys, member(ref), lease, "call:"+call.ID(), text,
		absent.Milliseconds(), kept.Milliseconds(), b.channel(), ref.String(), "from:"+call.ID(), b.own).Slice()
	if err != nil {
		return nil, trouble("post a call", err)
	}
	said, _ := got[0].(string)
	var more string
	if len(got) > 1 {
		more, _ = got[1].(string)
	}
	switch said {
	case "ended":
		return nil, ErrEnded
	case "over":
		var over external.Ending
		if err := json.Unmarshal([]byte(more), &over); err == nil && hash != "" && over.Hash == hash {
			return &external.Answer{}, nil // the same end again
		}
		return nil, fmt.Errorf("%w%s", ErrOver, because(over.Failed))
	case "absent":
		return nil, ErrAbsent
	case "unknown":
		if call.Posted {
			call.Posted = false
			return b.Post(ctx, ref, lease, call)
		}
	case "answer":
		var a external.Answer
		err := json.Unmarshal([]byte(more), &a)
		return &a, err
	}
	return nil, nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// Await calls look, and again whenever a call may have come for the game, until there is no more to wait for.
func (b *Box) Await(ctx context.Context, ref rollout.EpisodeRef,
	look func(told *external.Standing) (more bool, err error)) error {
	return b.await(ctx, ref.String(), func(told string) (more bool, err error) {
		if told == "" {
			return look(nil)
		}
		s, err := standing(ref, told)
		if err != nil {
			return false, err
		}
		return look(&s)
	})
}

// AwaitAnswer posts a call by post, and again from time to time, until it is answered, by what post returns or by what
// is told.
func (b *Box) AwaitAnswer(ctx context.Context, ref rollout.EpisodeRef, lease string, call external.Call,
	post func() (*external.Answer, error)) (answer *external.Answer, err error) {
	err = b.await(ctx, b.answerKey(ref, lease, call.ID()), func(told string) (more bool, err error) {
		if told != "" && !strings.HasPrefix(told, fault) {
			return false, json.Unmarshal([]byte(told), &answer)
		}
		answer, err = post() // which takes a fault out: the same call may be right later
		return answer == nil, err
	})
	return answer, err
}

// fault is how an answer begins that says what is wrong with its call.
const fault = `{"fault":`

// AwaitOpen does so for the games of a run that are open.
func (b *Box) AwaitOpen(ctx context.Context, run rollout.RunName, look func() (more bool, err error)) error {
	return b.await(ctx, string(run), func(string) (bool, error) { return look() })
}

// await calls look with nothing, and whenever there is news of what it waits for with what was told.
func (b *Box) await(ctx context.Context, what string, look func(told string) (more bool, err error)) error {
	woken := make(chan string, 1)
	b.mu.Lock()
	b.waiting[what] = append(b.waiting[what], woken)
	if !b.hearing {
		b.hearing = true
		go b.hear()
	}
	b.mu.Unlock()
	defer b.leave(what, woken)
	ticker := time.NewTicker(external.LookEvery)
	defer ticker.Stop()
	for told := ""; ; {
		if more, err := look(told); err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case told = <-woken:
		case <-ticker.C: // what was told may have been lost
			told = ""
		}
	}
}

func (b *Box) leave(what string, woken chan string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[what] = slices.DeleteFunc(b.waiting[what], func(c chan string) bool { return c == woken })
	if len(b.waiting[what]) == 0 {
		delete(b.waiting, what)
	}
}

// idle is for how long nobody need wait before the process hears of changes no more.
const idle = 30 * time.Second

// hear wakes who waits for what has changed, until nobody has waited for a while.
func (b *Box) hear() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	heard := b.rdb.Subscribe(ctx, b.channel(), b.own)
	defer heard.Close()
	messages := heard.Channel()
	ticker := time.NewTicker(idle)
	defer ticker.Stop()
	for {
		select {
		case message, open := <-messages:
			if !open {
				b.mu.Lock()
				b.hearing = false
				b.mu.Unlock()
				return
			}
			b.wake(message.Payload)
		case <-ticker.C:
			b.mu.Lock()
			if len(b.waiting) == 0 {
				b.hearing = false
				b.mu.Unlock()
				return
			}
			b.mu.Unlock()
		}
	}
}

// wake tells those who wait the newest: it is all that there is to know.
func (b *Box) wake(message string) {
	what, told, _ := strings.Cut(message, "\n")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.waiting[what] {
		select {
		case <-c:
		default:
		}
		c <- told // there is room: only this writes, under the lock
	}
}

// trouble is an error of Redis as one that passes.
func trouble(doing string, err error) error {
	if err == nil {
		return nil
	}
	return rollout.Fail(rollout.Retryable, rollout.CodeEnvironmentUnavailable, fmt.Errorf("%s: %w", doing, err))
}
