// Package memory is a provider whose engines are entries of a map, for tests: the processes of a test share one Cloud,
// and each opens its own Provider of it. It keeps the contract, and fails on demand as real providers do: it refuses,
// has no capacity, loses an answer, lets engines die, and takes machines away.
//
// Start reading at Cloud.
package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Cloud holds the engines of all deployments. Its methods may be called at the same time.
type Cloud struct {
	// Now is the clock; time.Now if nil. URL is where an engine answers, from the moment that it runs; nil: at an address
	// of its own where nothing listens. OnStart and OnStop hear of engines that begin and end to run, once each, and
	// must not call the Cloud. They are set before its first use.
	Now     func() time.Time
	URL     func(rollout.EngineID) string
	OnStart func(rollout.EngineID)
	OnStop  func(rollout.EngineID)

	mu       sync.Mutex
	engines  []*engine // in the order in which they were asked for
	capacity int       // how many may run; below 0: any number
	refusal  error
	lost     error
	hanging  chan struct{} // calls wait until it is closed
	calls    []Call
}

// Call is one call of a provider.
type Call struct {
	Method string // start, stop or list
	ID     rollout.EngineID
}

type engine struct {
	deployment string
	provider.Instance
}

// NewCloud has room for any number of engines.
func NewCloud() *Cloud { return &Cloud{capacity: -1} }

// Provider opens the provider of a deployment. Those of one deployment see the same engines.
func (c *Cloud) Provider(deployment string) *Provider {
	return &Provider{cloud: c, deployment: deployment}
}

// Provider is one deployment's view of a Cloud.
type Provider struct {
	cloud      *Cloud
	deployment string
}

var _ provider.Provider = (*Provider)(nil)

// Start runs an engine, or keeps it pending while there is no capacity.
func (p *Provider) Start(ctx context.Context, id rollout.EngineID) error {
	c := p.cloud
	if err := provider.ValidateID(id); err != nil {
		return err
	}
	if err := c.enter(ctx, Call{"start", id}); err != nil {
		return fmt.Errorf("start engine %s: %w", id, err)
	}
	defer c.mu.Unlock()
	if c.find(p.deployment, id) == nil {
		c.engines = append(c.engines, &engine{p.deployment, provider.Instance{
			ID: id, State: enginestate.EngineOrdered, Since: c.now(), Reason: "no capacity"}})
		c.fill()
	}
	return c.answer()
}

// Stop ends an engine and forgets it.
func (p *Provider) Stop(ctx context.Context, id rollout.EngineID) error {
	c := p.cloud
	if err := c.enter(ctx, Call{"stop", id}); err != nil {
		return fmt.Errorf("stop engine %s: %w", id, err)
	}
	defer c.mu.Unlock()
	c.engines = slices.DeleteFunc(c.engines, func(e *engine) bool {
		if e.deployment != p.deployment || e.ID != id {
			return false
		}
		c.ended(e)
		return true
	})
	c.fill()
	return c.answer()
}

// List is every engine of the deployment.
func (p *Provider) List(ctx context.Context) ([]provider.Instance, error) {
	c := p.cloud
	if err := c.enter(ctx, Call{Method: "list"}); err != nil {
		return nil, fmt.Errorf("list engines: %w", err)
	}
	defer c.mu.Unlock()
	var all []provider.Instance
	for _, e := range c.engines {
		if e.deployment == p.deployment {
			all = append(all, e.Instance)
		}
	}
	slices.SortFunc(all, func(a, b provider.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all, c.answer()
}

// Fail has an engine end by itself, for a reason.
func (c *Cloud) Fail(deployment string, id rollout.EngineID, reason string) {
	c.change(deployment, id, func(e *engine) {
		c.ended(e)
		e.State, e.Reason = enginestate.EngineFailed, reason
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fill()
}

// Leave announces when an engine's machine will be taken away.
func (c *Cloud) Leave(deployment string, id rollout.EngineID, at time.Time) {
	c.change(deployment, id, func(e *engine) { e.LeavesAt = at })
}

// SetCapacity is how many engines may run from now on, of all deployments; below 0: any number. Those that run already
// go on.
func (c *Cloud) SetCapacity(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capacity = n
	c.fill()
}

// Refuse has every call fail without an effect; nil ends it.
func (c *Cloud) Refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = err
}

// LoseAnswers has every call take effect and fail nevertheless; nil ends it.
func (c *Cloud) LoseAnswers(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = err
}

// Hang has calls wait, as long as their context allows, until resume is called.
func (c *Cloud) Hang() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hanging := make(chan struct{})
	c.hanging = hanging
	return sync.OnceFunc(func() { close(hanging) })
}

// Calls are all that were made so far.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Running is how many engines run under an id.
func (c *Cloud) Running(deployment string, id rollout.EngineID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.find(deployment, id); e != nil && e.State == enginestate.EngineRunning {
		return 1
	}
	return 0
}

// enter holds the lock when it returns without an error.
func (c *Cloud) enter(ctx context.Context, call Call) error {
	c.mu.Lock()
	hanging := c.hanging
	c.mu.Unlock()
	if hanging != nil {
		select {
		case <-hanging:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	c.calls = append(c.calls, call)
	if c.refusal != nil {
		defer c.mu.Unlock()
		return c.refusal
	}
	return nil
}

func (c *Cloud) answer() error { return c.lost }

func (c *Cloud) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

func (c *Cloud) find(deployment string, id rollout.EngineID) *engine {
	for _, e := range c.engines {
		if e.deployment == deployment && e.ID == id {
			return e
		}
	}
	return nil
}

func (c *Cloud) change(deployment string, id rollout.EngineID, do func(*engine)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.find(deployment, id); e != nil {
		do(e)
	}
}

// fill runs what is pending, the oldest first, as far as there is capacity.
func (c *Cloud) fill() {
	running := 0
	for _, e := range c.engines {
		if e.State == enginestate.EngineRunning {
			running++
		}
	}
	for i, e := range c.engines {
		if e.State != enginestate.EngineOrdered || c.capacity >= 0 && running >= c.capacity {
			continue
		}
		e.State, e.Reason, e.URL = enginestate.EngineRunning, "", fmt.Sprintf("http://127.0.0.1:%d", 1+i)
		if c.URL != nil {
			e.URL = c.URL(e.ID)
		}
		if c.OnStart != nil {
			c.OnStart(e.ID)
		}
		running++
	}
}

func (c *Cloud) ended(e *engine) {
	if e.State == enginestate.EngineRunning && c.OnStop != nil {
		c.OnStop(e.ID)
	}
}
