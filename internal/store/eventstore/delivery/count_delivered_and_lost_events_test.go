package delivery_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redistest"
	"github.com/millrace/millrace/internal/store/runindex"
)

// TestLawOfCounts: whatever is written, shipped, refused, replayed, dropped, let go or deleted, in whatever order and
// by whichever shipper, of runs that go on, end, are wound up and go on again, written = delivered + dead letters +
// lost + waiting, and a fact is delivered or counted.
func TestLawOfCounts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		for seed := range uint64(6) {
			play := newShipping(t, rdb, fmt.Sprintf("law%d", seed), seed)
			for range 150 {
				play.move()
				play.holds()
			}
			play.finish()
		}
	})
}

// TestLawOfCountsOnACluster is the same where runs and fleet are on three masters.
func TestLawOfCountsOnACluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t, 3)
	play := newShipping(t, rdb, "test", 42)
	for range 100 {
		play.move()
		play.holds()
	}
	play.finish()
}

// shipping is a store, what is done with it, and what must come of it.
type shipping struct {
	t         *testing.T
	rdb       redis.UniversalClient
	prefix    string
	rng       *rand.Rand
	store     *delivered
	owner     int
	page      int // events of a scope that are shipped at once, at most: with few the sink falls behind, and loses some
	fence     int64
	n         int
	facts     map[string]bool // event ids written
	delivered map[string]bool
	dropped   map[string]bool
	deleted   map[rollout.RunName]bool
}

func newShipping(t *testing.T, rdb redis.UniversalClient, prefix string, seed uint64) *shipping {
	t.Helper()
	p := &shipping{t: t, rdb: rdb, prefix: prefix, rng: rand.New(rand.NewPCG(seed, 0)), page: []int{30, 4}[seed%2],
		facts:     map[string]bool{},
		delivered: map[string]bool{}, dropped: map[string]bool{}, deleted: map[rollout.RunName]bool{}}
	p.another()
	return p
}

func (p *shipping) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// few is bounds that are soon reached.
var few = store.Limits{Recent: 40, Kinds: map[string]store.KindLimit{"": {Kept: 20, Unshipped: 120}}}

// another is a new process in the place of the last, which was killed.
func (p *shipping) another() {
	p.t.Helper()
	ctx := p.t.Context()
	if p.store != nil {
		p.ok(p.store.Release(ctx, fmt.Sprint(p.owner)))
	}
	p.owner++
	with := opened(p.rdb, p.prefix, few)
	p.store = &with
	fence, mine, err := p.store.Lease(ctx, fmt.Sprint(p.owner), time.Hour)
	if p.ok(err); !mine {
		p.t.Fatal("no lease")
	}
	p.fence = fence
}

func (p *shipping) move() {
	p.t.Helper()
	ctx := p.t.Context()
	run := []rollout.RunName{"", "a", "b", "c"}[p.rng.IntN(4)]
	move := p.rng.IntN(16)
	if run == "" && move >= 12 {
		return
	}
	switch move {
	case 12:
		if !p.deleted[run] {
			p.ok(p.runs().Open(ctx, run))
		}
	case 13:
		p.ok(p.runs().End(ctx, run, time.Now()))
	case 14:
		p.ok(store.NoteScope(ctx, p.rdb, p.prefix, run))
		p.ok(p.runs().WoundUp(ctx, run))
	case 15:
		if p.rng.IntN(3) == 0 {
			p.ok(p.runs().Revive(ctx, run))
		}
		p.tell(run)
	case 0, 1, 2:
		writer := store.New(p.rdb, p.prefix, few)
		for range p.rng.IntN(60) {
			p.n++
			e := fact(run, p.n)
			if p.rng.IntN(3) == 0 {
				e = sample(run, p.n)
			} else {
				p.facts[e.ID()] = true
			}
			writer.Emit(e)
		}
		writer.Close()
	case 3:
		if run != "" {
			p.ok(p.rdb.Set(ctx, p.prefix+":{"+string(run)+"}:gone", 1, 0).Err()) // as the buffer marks a deleted run
			p.ok(p.runs().Remove(ctx, run))
			p.ok(p.store.Delete(ctx, run))
			p.deleted[run] = true
		}
	case 4:
		p.ok(p.store.Trim(ctx))
	case 5:
		p.another()
	case 6:
		_, err := p.store.Replay(ctx)
		p.ok(err)
	case 7:
		letters, err := p.store.DeadLetters(ctx, "", 3)
		p.ok(err)
		for _, l := range letters {
			_, err := p.store.DropDeadLetters(ctx, l.ID)
			p.ok(err)
			p.dropped[l.Event] = true
		}
	default:
		p.ship(p.rng.IntN(p.page), true)
	}
}

func (p *shipping) runs() runindex.Index { return runindex.New(p.rdb, p.prefix) }

// tell writes a fact as the buffer's scripts do. They do so for runs that there are, and note no scope.
func (p *shipping) tell(run rollout.RunName) {
	p.t.Helper()
	if known, err := p.runs().Has(p.t.Context(), run); err != nil || !known {
		p.ok(err)
		return
	}
	p.n++
	e := fact(run, p.n)
	text, err := telemetry.Encode(e)
	p.ok(err)
	script := redis.NewScript("local base = string.sub(KEYS[1], 1, -4)\n" + store.Lua() + "tell(ARGV[1]) return 1")
	p.ok(script.Run(p.t.Context(), p.rdb, []string{p.prefix + ":{" + string(run) + "}:run"}, text).Err())
	p.facts[e.ID()] = true
}

// ship takes up to limit events of each scope; some are refused, and some at the end are left for another time.
func (p *shipping) ship(limit int, faults bool) (shipped int) {
	p.t.Helper()
	ctx := p.t.Context()
	scopes, err := p.store.Scopes(ctx)
	p.ok(err)
	for _, scope := range scopes {
		page, err := p.store.Unshipped(ctx, scope, limit)
		p.ok(err)
		if n := len(page.Records); faults && n > 0 && p.rng.IntN(6) == 0 {
			page.Records = page.Records[:n-1]
		}
		for _, r := range page.Records {
			e, err := r.Event()
			p.ok(err)
			if faults && p.rng.IntN(8) == 0 {
				p.ok(p.store.DeadLetter(ctx, r, "no good"))
			} else {
				p.delivered[e.ID()] = true
			}
		}
		p.ok(p.store.Acknowledge(ctx, p.fence, page))
		shipped += len(page.Records)
	}
	return shipped
}

// holds checks the law, with nothing in between.
func (p *shipping) holds() {
	p.t.Helper()
	s, err := p.store.SinkStatus(p.t.Context())
	p.ok(err)
	if s.Written != s.Delivered+s.DeadLetters+s.Lost()+s.Backlog {
		p.t.Fatalf("%d written, %d delivered, %d dead letters, %d lost, %d wait: %+v", s.Written, s.Delivered, s.DeadLetters,
			s.Lost(), s.Backlog, s)
	}
}

// finish ships the rest, and looks for every fact.
func (p *shipping) finish() {
	p.t.Helper()
	ctx := p.t.Context()
	p.ok(p.store.Trim(ctx))
	for p.ship(100, false) > 0 {
	}
	p.ok(p.store.Trim(ctx))
	p.holds()
	letters, err := p.store.DeadLetters(ctx, "", 10_000)
	p.ok(err)
	missing := map[string]bool{}
	for id := range p.facts {
		missing[id] = !p.delivered[id] && !p.dropped[id]
	}
	for _, l := range letters {
		missing[l.Event] = false
	}
	n := int64(0)
	for _, is := range missing {
		if is {
			n++
		}
	}
	s, err := p.store.SinkStatus(ctx)
	p.ok(err)
	if s.Backlog != 0 || s.LostFacts != n || s.LostSamples < 0 || s.Written < int64(len(p.facts)) {
		p.t.Errorf("%d facts are missing; %+v", n, s)
	}
	for run := range p.deleted {
		if p.rdb.Exists(ctx, p.prefix+":{"+string(run)+"}:cursor").Val() != 0 {
			p.t.Errorf("deleted run %s has a cursor", run)
		}
	}
}

// between runs something once, right before a script whose text has some words is run.
type between struct {
	scriptsFail
	words string
	do    func()
}

func (h *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && h.do != nil {
			for _, key := range cmd.Args() {
				if key == h.words {
					do := h.do
					h.do = nil
					do()
					break
				}
			}
		}
		return next(ctx, cmd)
	}
}

// TestFirstFactsSurviveATrim: a server trims in the moment between a writer's note of a scope and the events that it
// writes there, and again right before it erases a scope that it has found empty.
func TestFirstFactsSurviveATrim(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"the writer is between", "the trimmer is between"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
				ctx := t.Context()
				if err := rdb.Set(ctx, "test:{demo}:gone", 1, 0).Err(); err != nil { // the run was deleted
					t.Fatal(err)
				}
				s, _ := leased(t, rdb, store.Limits{})
				write := func() {
					writer := store.New(rdb, "test", store.Limits{})
					writer.Emit(fact("demo", 1))
					writer.Close()
				}
				trim := func() {
					if err := s.Trim(ctx); err != nil {
						t.Error(err)
					}
				}
				if name == "the writer is between" {
					rdb.AddHook(&between{words: "test:{demo}:events", do: trim})
					write()
				} else {
					if err := rdb.SAdd(ctx, "test:event-scopes", "demo").Err(); err != nil {
						t.Fatal(err)
					}
					rdb.AddHook(&between{words: "test:{demo}:written", do: write})
					trim()
				}
				trim()
				page := unshipped(t, s, "demo").Records
				scopes, err := s.Scopes(ctx)
				if err != nil || len(page) != 1 || !slices.Contains(scopes, "demo") {
					t.Errorf("%d events, in scopes %q, %v", len(page), scopes, err)
				}
			})
		})
	}
}

// TestReplayBesideARefusal: an event is replayed while it is sent again, and refused again in the middle of it.
func TestReplayBesideARefusal(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		s, fence := leased(t, rdb, store.Limits{})
		write(t, s, fact("demo", 1))
		page := unshipped(t, s, "demo").Records
		refuse := func() {
			for _, scope := range []rollout.RunName{"demo", store.Replayed} {
				page, err := s.Unshipped(ctx, scope, 10)
				if err != nil {
					t.Error(err)
				}
				for _, r := range page.Records {
					if err := s.DeadLetter(ctx, r, "no good"); err != nil {
						t.Error(err)
					}
				}
				if err := s.Acknowledge(ctx, fence, page); err != nil {
					t.Error(err)
				}
			}
		}
		if err := s.DeadLetter(ctx, page[0], "no good"); err != nil { // and then the shipper is killed
			t.Fatal(err)
		}
		rdb.AddHook(&between{words: "test:{fleet}:dead", do: refuse})
		if n, err := s.Replay(ctx); err != nil || n < 1 {
			t.Fatalf("replayed %d, %v", n, err)
		}
		refuse()
		letters, err := s.DeadLetters(ctx, "", 10)
		status, statusErr := s.SinkStatus(ctx)
		if err != nil || statusErr != nil || len(letters) != 1 || status.Written != 1 || status.Backlog != 0 {
			t.Errorf("letters %+v, %+v, %v, %v", letters, status, err, statusErr)
		}
	})
}

// TestSinceIsTheClockOfRedis: events are behind a new sink's cursor whatever the server's clock says, for their ids are
// from the clock of Redis.
func TestSinceIsTheClockOfRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.Real(t)
	rdb.AddHook(&otherTime{ahead: -48 * time.Hour}) // Redis is two days behind this process
	leased(t, rdb, store.Limits{})
	at, err := rdb.HGet(t.Context(), "test:{fleet}:sink", "since").Int64()
	if want := time.Now().Add(-49 * time.Hour); err != nil || time.UnixMilli(at).Sub(want).Abs() > time.Minute {
		t.Errorf("since %v, %v", time.UnixMilli(at), err)
	}
}

// otherTime is a Redis whose clock is apart from this process's.
type otherTime struct {
	scriptsFail
	ahead time.Duration
}

func (h *otherTime) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if at, is := cmd.(*redis.TimeCmd); is {
			at.SetVal(at.Val().Add(h.ahead))
		}
		return err
	}
}
