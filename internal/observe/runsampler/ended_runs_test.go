package runsampler

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// commands counts the commands that a client sends, and how many values they bring.
type commands struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *commands) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.note(cmd)
		return err
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			c.note(cmd)
		}
		return err
	}
}

func (c *commands) note(cmd redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[cmd.Name()]++
	switch got := cmd.(type) {
	case *redis.StringSliceCmd:
		c.count["values"] += len(got.Val())
	case *redis.ZSliceCmd:
		c.count["values"] += len(got.Val())
	case *redis.MapStringStringCmd:
		c.count["values"] += len(got.Val())
	}
}

// took is what some work costs.
func (c *commands) took(work func()) map[string]int {
	c.mu.Lock()
	c.count = map[string]int{}
	c.mu.Unlock()
	work()
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

// TestRunsThatAreOverCostNothing: all that servers and workers ask again and again takes as many commands, and brings
// as many values, with 150 runs that are over as with none.
func TestRunsThatAreOverCostNothing(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	ctx, counted := t.Context(), &commands{count: map[string]int{}}
	d.rdb.AddHook(counted)
	sink := delivery.New(d.rdb, "test", d.events)
	rounds := func() { // as many as it takes to look at all, as time goes by
		for range 4 {
			d.now = d.now.Add(Interval)
			d.redis.FastForward(Interval)
			d.ok(d.samplers[0].sampleAll(ctx, d.now))
			_, err := d.buffer.Active(ctx)
			d.ok(err)
			_, err = d.buffer.Deleting(ctx)
			d.ok(err)
			_, err = d.buffer.Expired(ctx, d.now.Add(-time.Hour), 1000, d.now.Add(-time.Minute), 10)
			d.ok(err)
			_, _, err = sink.Lease(ctx, "me", time.Hour)
			d.ok(err)
			scopes, err := sink.Scopes(ctx)
			d.ok(err)
			for _, scope := range scopes {
				page, err := sink.Unshipped(ctx, scope, 1000)
				d.ok(err)
				d.ok(sink.Acknowledge(ctx, 1, page))
			}
			_, err = sink.SinkStatus(ctx)
			d.ok(err)
			d.ok(sink.Trim(ctx))
		}
	}
	d.now = d.now.Add(time.Minute) // alarms of a run that has begun stand before and after
	rounds()
	before := counted.took(rounds)
	for i := range 150 {
		spec := d.spec
		spec.Name = rollout.RunName(fmt.Sprintf("over-%d", i))
		d.ok(d.buffer.Open(ctx, spec))
		d.ok(d.buffer.SaveStatus(ctx, runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning, StartedAt: d.now}, 0))
		d.ok(d.samplers[0].sampleAll(ctx, d.now))
		d.ok(d.buffer.SaveStatus(ctx, runstatus.RunStatus{Spec: spec, State: runstatus.RunCompleted, StartedAt: d.now,
			EndedAt: d.now}, 0))
	}
	d.now = d.now.Add(lastWords)
	for range 3 {
		rounds()
	}
	after := counted.took(rounds)
	runs, err := d.buffer.Runs(ctx)
	if d.ok(err); len(runs) != 151 {
		t.Fatalf("there are %d runs", len(runs))
	}
	// Four looks at 16 of the scopes that are done, whether something was written there after all.
	const lookedAt = 4 * 16
	after["hget"] -= lookedAt
	after["values"] -= lookedAt
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if after[name] > before[name]+8 {
			t.Errorf("%s: %d, and %d without the runs that are over", name, after[name], before[name])
		}
	}
	t.Log(before, after)
}
