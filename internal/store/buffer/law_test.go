package buffer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

var onStale = []runspec.OnStale{runspec.DropStale, runspec.KeepStale, runspec.WaitStale}

// TestRandomCalls makes random calls, some of them twice as after a lost answer, and compares every answer and the
// account with the model's. Besides, it checks the laws that need no model.
func TestRandomCalls(t *testing.T) {
	t.Parallel()
	for seed := range seeds(12) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
				rng := rand.New(rand.NewPCG(seed, 1))
				s := spec(1+rng.IntN(3), 40)
				s.Buffer.OnStale = onStale[seed%3]
				if rng.IntN(2) == 0 {
					s.Buffer.Prefill = runspec.PrefillFull
				}
				p := &player{fixture: open(t, rdb, s), model: newModel(s, 2), rng: rng, laws: newLaws()}
				for range 400 {
					p.move()
					if t.Failed() {
						return
					}
				}
				p.factsAgree()
			})
		})
	}
}

// player makes the same call to the buffer and to the model.
type player struct {
	*fixture
	model *model
	rng   *rand.Rand
	laws  *laws
	last  int // highest group launched
	log   []string
}

func (p *player) move() {
	p.t.Helper()
	times := 1
	if p.rng.IntN(5) == 0 {
		times = 2
	}
	call := p.choose()
	for range times {
		call()
	}
	p.account()
	if p.t.Failed() {
		p.t.Logf("the last calls: %q", p.log[max(0, len(p.log)-12):])
	}
}

// choose draws a call with its arguments.
func (p *player) choose() func() {
	seq, m := max(0, p.last-p.rng.IntN(8)), p.model
	step := m.next + p.rng.IntN(4) - 1
	if p.rng.IntN(8) == 0 {
		step = max(0, m.next-p.rng.IntN(5))
	}
	generation := m.generation
	if p.rng.IntN(10) == 0 {
		generation += p.rng.IntN(3) - 1
	}
	switch p.rng.IntN(20) {
	case 0, 1, 2:
		p.last++
		return p.queueing(p.last, m.version)
	case 3:
		return p.queueing(seq, max(0, m.version-p.rng.IntN(3)))
	case 4, 5:
		return p.starting(seq)
	case 6, 7, 8:
		return p.committing(seq, max(0, m.version-p.rng.IntN(3)))
	case 9:
		return p.discarding(seq)
	case 10, 11:
		return p.claiming(max(0, step), generation)
	case 12:
		return p.completing(max(0, step), generation, p.rng.IntN(8)/7)
	case 13:
		return p.rare()
	case 14:
		return p.releasing(seq)
	case 15:
		return p.saving(seq, p.rng.IntN(2), p.rng.IntN(20))
	case 16:
		return p.publishing(m.version + 1)
	case 17, 18: // so that not all that is left behind stays there
		if old := slices.Concat(m.in("in_flight"), m.in("queued")); len(old) > 0 {
			return p.committing(old[0], max(0, m.from[old[0]]))
		}
		return p.claiming(m.next, m.generation)
	default:
		return p.completing(m.next, m.generation, 0)
	}
}

// rare draws a call that changes the rules.
func (p *player) rare() func() {
	m := p.model
	switch p.rng.IntN(3) {
	case 0:
		return p.attaching(max(0, m.next-p.rng.IntN(4)+1))
	case 1:
		return p.publishing(m.version + p.rng.IntN(3) - 1)
	default:
		limits := m.limits
		limits.GroupsPerStep = 1 + p.rng.IntN(3)
		limits.MaxStaleness = int64(p.rng.IntN(3))
		if p.rng.IntN(4) == 0 {
			limits.OnStale = onStale[p.rng.IntN(3)]
			limits.Order = []runspec.BatchOrder{"", runspec.StartOrder, runspec.FinishOrder}[p.rng.IntN(3)]
		}
		limits.Depth = 1 + p.rng.IntN(3)
		limits.MaxBytes = int64(p.rng.IntN(2) * p.rng.IntN(8*size(p.t, group(0, 0))))
		steps := 30 + p.rng.IntN(20)
		return func() {
			p.note("limits %+v", limits)
			p.ok(p.SetLimits(p.ctx, run, limits, steps, 0))
			m.limits, m.steps = limits, steps
			m.sweep()
		}
	}
}

func (p *player) publishing(version int) func() {
	return func() {
		p.note("version %d", version)
		p.ok(p.SetVersion(p.ctx, run, rollout.PolicyVersion(version), 0))
		p.model.version = max(p.model.version, version)
		p.model.sweep()
	}
}

func (p *player) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

// same checks the outcome of a call: refused with a code, or not refused.
func (p *player) same(what string, err error, code rollout.RefusalCode) {
	p.t.Helper()
	p.note("%s: %v", what, err)
	var refusal *rollout.Refusal
	switch {
	case errors.As(err, &refusal):
		expect(p.t, what, refusal.Code, code)
	case err != nil:
		p.t.Fatalf("%s: %v", what, err)
	default:
		expect(p.t, what, "", code)
	}
}

func (p *player) queueing(seq, version int) func() {
	return func() {
		_, err := p.Queue(p.ctx, ref(seq), []byte("x"), rollout.PolicyVersion(version), start)
		p.same(fmt.Sprintf("queue %d of version %d", seq, version), err, p.model.queue(seq, version))
	}
}

func (p *player) starting(seq int) func() {
	return func() {
		p.same(fmt.Sprintf("start %d", seq), p.Start(p.ctx, ref(seq)), p.model.start(seq))
	}
}

func (p *player) committing(seq, version int) func() {
	return func() {
		g := group(seq, rollout.PolicyVersion(version))
		got, err := p.CommitGroup(p.ctx, g)
		p.same(fmt.Sprintf("commit %d of version %d", seq, version), err, "")
		duplicate, dropped := p.model.commit(seq, version, mean(g.Phases), size(p.t, g))
		expect(p.t, "commit", got, buffer.Commit{Duplicate: duplicate, Dropped: dropped})
	}
}

func (p *player) discarding(seq int) func() {
	return func() {
		p.same(fmt.Sprintf("discard %d", seq), p.Discard(p.ctx, ref(seq), "test"), p.model.discard(seq, "test"))
	}
}

func (p *player) saving(seq, sample, phases int) func() {
	return func() {
		episode := game(seq, sample)
		err := p.SaveCheckpoint(p.ctx, episode, 1, checkpoint(phases, "board"))
		p.same(fmt.Sprintf("save phase %d of game %d/%d", phases, seq, sample), err, p.model.save(episode, phases))
	}
}

func (p *player) releasing(seq int) func() {
	return func() {
		got, err := p.Release(p.ctx, ref(seq), "released")
		p.same(fmt.Sprintf("release %d", seq), err, "")
		expect(p.t, "released", got, p.model.release(seq, "released"))
	}
}

func (p *player) claiming(step, generation int) func() {
	return func() {
		b, err := p.Claim(p.ctx, run, rollout.Step(step), rollout.TrainerGeneration(generation), buffer.Share{})
		want, code := p.model.claim(step, generation)
		p.same(fmt.Sprintf("claim %d in generation %d", step, generation), err, code)
		if err == nil {
			expect(p.t, "batch", seqs(b), want)
			p.laws.given(p.t, step, b)
		}
	}
}

func (p *player) completing(step, generation, kind int) func() {
	return func() {
		_, fresh, err := p.Complete(p.ctx, run, rollout.Step(step), rollout.TrainerGeneration(generation), report(kind),
			steprecord.FleetView{})
		want, code := p.model.complete(step, generation, kind)
		p.same(fmt.Sprintf("complete %d in generation %d", step, generation), err, code)
		expect(p.t, "fresh", fresh, want)
	}
}

func (p *player) attaching(from int) func() {
	return func() {
		step := rollout.Step(from)
		generation, next, err := p.Attach(p.ctx, run, &step)
		p.same(fmt.Sprintf("attach from %d", from), err, p.model.attach(from))
		if err == nil {
			expect(p.t, "generation and next", []int{int(generation), int(next)}, []int{p.model.generation, p.model.next})
		}
	}
}

// account compares the accounts, and checks that every group launched is in exactly one place.
func (p *player) account() {
	p.t.Helper()
	a, err := p.Account(p.ctx, run)
	p.ok(err)
	expect(p.t, "counts", a.Counts, p.model.counts())
	expect(p.t, "bytes of a group", a.GroupBytes, int64(p.model.meanBytes()))
	for state, got := range map[string][]rollout.GroupSeq{"queued": a.Queued, "in_flight": a.InFlight, "ready": a.Ready} {
		expect(p.t, state, fmt.Sprint(got), fmt.Sprint(p.model.in(state)))
	}
	c := a.Counts
	expect(p.t, "sum of counts", c.Queued+c.InFlight+c.Ready+c.Claimed+c.Completed+c.Dropped, a.Launched)
	departures, err := p.Departures(p.ctx, run)
	p.ok(err)
	expect(p.t, "departures", departures, p.model.departures())
	expect(p.t, "steps", []int{int(a.NextStep), int(a.ClaimedTo)}, []int{p.model.next, len(p.model.batches)})
}

// laws holds what was given out, over all claims of a run.
type laws struct {
	mu     sync.Mutex
	owner  map[string]int // trajectory id -> step
	batch  map[int]string
	groups map[int]int
}

func newLaws() *laws {
	return &laws{owner: map[string]int{}, batch: map[int]string{}, groups: map[int]int{}}
}

// given checks that a step's batch is always the same, and that no trajectory is in two steps.
func (l *laws) given(t testing.TB, step int, b *rollout.Batch) {
	t.Helper()
	text := asJSON(t, b)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.batch[step]; ok && before != text {
		t.Errorf("step %d was given as another batch before", step)
	}
	l.batch[step] = text
	l.groups[step] = len(b.Groups)
	for _, id := range ids(b) {
		if other, ok := l.owner[id]; ok && other != step {
			t.Errorf("trajectory %s is in steps %d and %d", id, other, step)
		}
		l.owner[id] = step
	}
}

// TestManyAtOnce has workers commit while trainers claim and complete, all at once and each call more than once.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		const size, steps, workers, trainers = 2, 20, 4, 3
		f := open(t, rdb, spec(size, steps))
		l := newLaws()
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range size * steps {
					seq := (i + w*7) % (size * steps) // every worker commits every group
					if _, err := f.CommitGroup(f.ctx, group(seq, 0)); err != nil {
						t.Errorf("commit %d: %v", seq, err)
					}
				}
			})
		}
		for range trainers {
			wg.Go(func() { train(f, l, steps) })
		}
		wg.Wait()

		expect(t, "counts", f.counts(), steprecord.BufferCounts{Completed: size * steps})
		expect(t, "steps", len(l.batch), steps)
		expect(t, "trajectories", len(l.owner), size*steps*len(group(0, 0).Trajectories))
		records, err := f.Steps(f.ctx, run, 0, 0)
		f.ok(err)
		for k, r := range records {
			if int(r.Step) != k || !r.Done || len(r.Service.Groups) != size {
				t.Errorf("record %d: step %d, done %v, %d groups", k, r.Step, r.Done, len(r.Service.Groups))
			}
		}
	})
}

// train goes through all steps beside other processes that do the same.
func train(f *fixture, l *laws, steps int) {
	for step := 0; step < steps; {
		b, err := f.Claim(f.ctx, run, rollout.Step(step), 0, buffer.Share{})
		switch {
		case rollout.Refused(err, rollout.NotReady):
			continue
		case rollout.Refused(err, rollout.NotRetained):
			step++ // the others are far ahead
			continue
		case err != nil:
			f.t.Errorf("claim %d: %v", step, err)
			return
		}
		l.given(f.t, step, b)
		if _, _, err := f.Complete(f.ctx, run, rollout.Step(step), 0, report(step), steprecord.FleetView{}); err != nil {
			f.t.Errorf("complete %d: %v", step, err)
			return
		}
		step++
	}
}
