package buffer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// TestATrainerIsNeverLeftWaiting plays whole runs that launch as runs do: up to the depth, as long as groups are
// fresh enough and fit, and always what a batch needs. Games end in any order, some groups are given up, limits
// change. Whenever nothing is played and nothing may be launched, the next batch must be given out.
func TestATrainerIsNeverLeftWaiting(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rdb redis.UniversalClient, seed uint64) {
		c := newCampaign(t, rdb, rand.New(rand.NewPCG(seed, 7)))
		c.changes = true
		c.run()
	})
}

// TestWhoWaitsTrainsOnNothingStale plays such runs, with limits that stay, whose trainer publishes once per step: if it
// waits, no batch has a group that is too stale, however long single games take.
func TestWhoWaitsTrainsOnNothingStale(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rdb redis.UniversalClient, seed uint64) {
		c := newCampaign(t, rdb, rand.New(rand.NewPCG(seed, 8)))
		c.limits.OnStale = runspec.WaitStale
		c.ok(c.SetLimits(c.ctx, run, c.limits, c.steps, 0))
		c.run()
		records, err := c.Steps(c.ctx, run, 0, 0)
		c.ok(err)
		expect(t, "records", len(records), c.steps)
		for _, r := range records {
			if r.Service.StalenessMax > c.limits.MaxStaleness {
				t.Errorf("step %d: staleness %d of at most %d", r.Step, r.Service.StalenessMax, c.limits.MaxStaleness)
			}
		}
		expect(t, "dropped as stale", c.account().Drops[rollout.CodeStale], 0)
	})
}

// eachSeed runs a test for several seeds, the first on the embedded Redis, the others on the real one, which is
// much faster.
func eachSeed(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient, seed uint64)) {
	t.Helper()
	for seed := range seeds(24) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			if seed == 0 {
				test(t, embedded(t), seed)
				return
			}
			test(t, redistest.Real(t), seed)
		})
	}
}

// campaign is a run and its trainer, in small.
type campaign struct {
	*fixture
	rng       *rand.Rand
	limits    runspec.BufferSpec
	steps     int
	changes   bool // limits change
	launched  int
	from      map[int]rollout.PolicyVersion
	claimed   int
	completed int
	slow      int // one group in so many takes long
}

func newCampaign(t *testing.T, rdb redis.UniversalClient, rng *rand.Rand) *campaign {
	s := spec(1+rng.IntN(3), 6+rng.IntN(6))
	s.Buffer.Depth = 2 + rng.IntN(3)
	s.Buffer.MaxStaleness = int64(rng.IntN(4))
	s.Buffer.OnStale = onStale[rng.IntN(3)]
	s.Buffer.Prefill = []runspec.Prefill{runspec.PrefillFull, runspec.PrefillBatch}[rng.IntN(2)]
	s.Buffer.Order = []runspec.BatchOrder{runspec.StartOrder, runspec.FinishOrder}[rng.IntN(2)]
	s.Buffer.MaxBytes = int64(rng.IntN(2) * (1 + rng.IntN(5*size(t, group(0, 0)))))
	return &campaign{
		fixture: open(t, rdb, s), rng: rng, limits: s.Buffer, steps: s.Steps,
		from: map[int]rollout.PolicyVersion{}, slow: 2 + rng.IntN(3),
	}
}

func (c *campaign) account() buffer.Account {
	c.t.Helper()
	a, err := c.Account(c.ctx, run)
	c.ok(err)
	return a
}

// mayLaunch is a run's rule: how many groups it would launch now.
func (c *campaign) mayLaunch(a buffer.Account) int {
	b := c.limits
	room := min(b.Depth, c.steps-int(a.ClaimedTo), b.AdmittedSteps(int(a.ClaimedTo-a.NextStep))) * b.GroupsPerStep
	if b.MaxBytes > 0 {
		fitting := 0
		if a.GroupBytes > 0 {
			fitting = len(a.Ready) + int(max(0, b.MaxBytes-a.Counts.Bytes)/a.GroupBytes)
		}
		room = min(room, max(fitting, b.GroupsPerStep))
	}
	return max(0, room-len(a.Outstanding()))
}

// run goes on until the trainer has completed every step.
func (c *campaign) run() {
	c.t.Helper()
	for moves := 0; c.completed < c.steps; moves++ {
		if moves > 10_000 {
			c.t.Fatalf("only %d of %d steps are completed: %+v", c.completed, c.steps, c.account())
		}
		switch c.rng.IntN(8) {
		case 0, 1:
			c.launch()
		case 2, 3, 4:
			c.play()
		case 5, 6:
			c.train()
		default:
			if c.changes && c.rng.IntN(6) == 0 {
				c.change()
			}
		}
		if c.t.Failed() {
			return
		}
	}
}

func (c *campaign) launch() {
	a := c.account()
	for range c.mayLaunch(a) {
		c.fixture.launch(a.Version, c.launched)
		c.from[c.launched] = a.Version
		c.launched++
	}
}

// play takes a group on: it is started, then ends. Slow ones mostly stay where they are.
func (c *campaign) play() {
	a := c.account()
	playing := slices.Concat(a.Queued, a.InFlight)
	if len(playing) == 0 {
		return
	}
	seq := int(playing[c.rng.IntN(len(playing))])
	slow := seq%c.slow == 0
	switch {
	case slow && c.rng.IntN(40) > 0:
	case slices.Contains(a.Queued, rollout.GroupSeq(seq)):
		c.ok(c.Start(c.ctx, ref(seq)))
	case c.rng.IntN(10) == 0:
		c.ok(c.Discard(c.ctx, ref(seq), "failed"))
	default:
		_, err := c.CommitGroup(c.ctx, group(seq, c.from[seq]))
		c.ok(err)
	}
}

// train completes a claimed step, or claims the next one, sometimes ahead of time.
func (c *campaign) train() {
	if c.claimed > c.completed && (c.claimed-c.completed == 2 || c.claimed == c.steps || c.rng.IntN(2) == 0) {
		c.ok(c.SetVersion(c.ctx, run, rollout.PolicyVersion(c.completed+1), 0))
		c.complete(c.completed, 0)
		c.completed++
		return
	}
	if c.claimed == c.steps {
		return
	}
	before := c.account()
	_, err := c.Claim(c.ctx, run, rollout.Step(c.claimed), 0, buffer.Share{})
	switch {
	case err == nil:
		c.claimed++
	case !rollout.Refused(err, rollout.NotReady):
		c.t.Fatal(err)
	case c.claimed > c.completed: // ahead of time; it will complete a step first
	default:
		after := c.account() // the claim may have dropped what was too stale
		if len(after.Queued)+len(after.InFlight)+c.mayLaunch(after) == 0 {
			c.t.Errorf("%v: nothing is played, and nothing may be launched:\nlimits %+v\nbefore %+v\nafter %+v", err,
				c.limits, before, after)
		}
	}
}

func (c *campaign) change() {
	c.limits.Depth = 1 + c.rng.IntN(4)
	c.limits.GroupsPerStep = 1 + c.rng.IntN(3)
	c.limits.MaxStaleness = int64(c.rng.IntN(4))
	c.limits.OnStale = onStale[c.rng.IntN(3)]
	c.limits.MaxBytes = int64(c.rng.IntN(2) * (1 + c.rng.IntN(10*size(c.t, group(0, 0)))))
	c.ok(c.SetLimits(c.ctx, run, c.limits, c.steps, 0))
}
