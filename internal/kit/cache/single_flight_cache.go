// Package cache makes a value once for all callers that ask at about the same time, and keeps it for later ones. When a
// value is too old is for each caller to say. Start reading at Cache.Of.
package cache

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/panics"
)

// Cache keeps values by key. Each caller says how old a value may be.
type Cache[K comparable, V any] struct {
	// Name is the place that a panic is reported under.
	Name   string
	Panics panics.Watch
	// Timeout bounds the making of a value.
	Timeout time.Duration
	// Most is the weight beyond which all values are forgotten. A value weighs 1, unless Weigh says otherwise.
	Most  int
	Weigh func(V) int

	mu     sync.Mutex
	by     map[K]*entry[V]
	weight int
}

// Made is a value as it was made.
type Made[V any] struct {
	Value V
	Err   error
	At    time.Time
}

// Younger accepts a value that was made without a failure less than an age ago.
func Younger[V any](age time.Duration) func(Made[V]) bool {
	return func(m Made[V]) bool { return m.Err == nil && time.Since(m.At) < age }
}

type entry[V any] struct {
	ready chan struct{} // closed when the value is made
	made  Made[V]
	good  *Made[V] // the latest value that did not fail; nil: there was none
}

// Of returns the value of a key: the present one if it is fresh, else the next one.
func (c *Cache[K, V]) Of(ctx context.Context, key K, fresh func(Made[V]) bool,
	produce func(context.Context) (V, error)) (value V, err error) {
	one := c.begin(ctx, key, fresh, produce)
	select {
	case <-one.ready:
		return one.made.Value, one.made.Err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// Latest returns the latest good value of a key, after waiting for the next one until patience ends. The zero value and
// no error: the first one is still being made.
func (c *Cache[K, V]) Latest(ctx context.Context, key K, fresh func(Made[V]) bool, patience time.Duration,
	produce func(context.Context) (V, error)) (value V, err error) {
	one := c.begin(ctx, key, fresh, produce)
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-one.ready:
		err = one.made.Err
	case <-waiting.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.good != nil {
		return one.good.Value, nil
	}
	return value, err
}

// Forget has values made anew.
func (c *Cache[K, V]) Forget(keys ...K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		c.drop(key)
	}
}

// ForgetAll has every value made anew.
func (c *Cache[K, V]) ForgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by, c.weight = nil, 0
}

func (c *Cache[K, V]) drop(key K) {
	if one := c.by[key]; one != nil && one.done() {
		c.weight -= c.weigh(one.made.Value)
	}
	delete(c.by, key)
}

func (c *Cache[K, V]) weigh(v V) int {
	if c.Weigh == nil {
		return 1
	}
	return c.Weigh(v)
}

func (e *entry[V]) done() bool {
	select {
	case <-e.ready:
		return true
	default:
		return false
	}
}

// begin has a value made, unless one is being made or the one that is there is fresh.
func (c *Cache[K, V]) begin(ctx context.Context, key K, fresh func(Made[V]) bool,
	produce func(context.Context) (V, error)) *entry[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.by[key]
	if one != nil && (!one.done() || fresh(one.made)) {
		return one
	}
	next := &entry[V]{ready: make(chan struct{})}
	if one != nil {
		next.good = one.good
	}
	c.drop(key)
	if c.by == nil || c.weight >= c.Most {
		c.by, c.weight = map[K]*entry[V]{}, 0
	}
	c.by[key] = next
	go c.fill(context.WithoutCancel(ctx), key, next, produce) // others may wait for it when this caller has gone
	return next
}

func (c *Cache[K, V]) fill(ctx context.Context, key K, one *entry[V], produce func(context.Context) (V, error)) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var m Made[V]
	m.Err = c.Panics.Catch(c.Name, func() (err error) {
		m.Value, err = produce(ctx)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	m.At = time.Now()
	if one.made = m; m.Err == nil {
		one.good = &m
	}
	if c.by[key] == one { // else it was forgotten meanwhile
		c.weight += c.weigh(m.Value)
	}
	close(one.ready)
}
