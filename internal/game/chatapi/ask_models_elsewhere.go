// Package chatapi asks models that no engine of the fleet serves: fixed policies behind an OpenAI-compatible chat API.
// It sends the prompt and a length, and neither sampling nor stops nor constraints, of which each such API knows
// others: the environment judges the answer as it judges any. Nobody trains on these answers, so they have no tokens.
// Start reading at Models.
package chatapi

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
)

// Bounds of what is asked of one API by this process.
const (
	mostCalls  = 32               // at a time
	patience   = 20 * time.Second // of all tries of a request, until its game gives its slot to others
	firstPause = 500 * time.Millisecond
	lastPause  = 8 * time.Second
	mostRest   = 10 * time.Minute // that an API may ask for
)

// Models is a policy that asks the URL that a request names, and the fleet where it names none. It is safe for
// concurrent use.
type Models struct {
	fleet episode.Policy
	conns specurl.Connections
	log   *slog.Logger
	byURL sync.Map // *api
}

// New makes Models.
func New(fleet episode.Policy, conns specurl.Connections, log *slog.Logger) *Models {
	return &Models{fleet: fleet, conns: conns, log: log}
}

// api is one URL.
type api struct {
	*specurl.Server
	places chan struct{} // of calls under way
	rests  atomic.Int64  // until when the API has asked for patience, in nanoseconds since 1970
	newer  sync.Map      // models whose length goes by its newer name
	outage retry.Outage  // tells the log of causes that a spec's author must not see
}

// Complete asks for one answer. Failures: CodeEngineAddress (the configuration refuses the URL), CodePolicyRefuses,
// CodePolicyUnavailable, CodeTimeout.
func (m *Models) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	if req.URL == "" {
		return m.fleet.Complete(ctx, req)
	}
	a, err := m.api(strings.TrimRight(req.URL, "/"))
	if err != nil {
		return rollout.Completion{}, rollout.Fail(rollout.Permanent, rollout.CodeEngineAddress, err)
	}
	if len(req.Tools) > 0 {
		return rollout.Completion{}, rollout.Fail(rollout.Permanent, rollout.CodePolicyRefuses,
			fmt.Errorf("model %s at %s: tools are not passed on to models elsewhere", req.Model, a.URL))
	}
	c, err := a.complete(ctx, &req)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("model %s at %s: %w", req.Model, a.URL, err)
	}
	return c, err
}

func (m *Models) api(url string) (*api, error) {
	if known, ok := m.byURL.Load(url); ok {
		return known.(*api), nil
	}
	server, err := specurl.New(m.conns, url)
	if err != nil {
		return nil, err
	}
	made := &api{Server: server, places: make(chan struct{}, mostCalls),
		outage: retry.Outage{Log: m.log.With("url", url), Down: "a model elsewhere does not answer",
			Up: "a model elsewhere answers again"},
	}
	first, _ := m.byURL.LoadOrStore(url, made)
	return first.(*api), nil
}

// complete tries until the API answers or refuses, or patience is spent. Calls alone are execution: all else is a wait.
func (a *api) complete(ctx context.Context, req *rollout.Request) (rollout.Completion, error) {
	began := time.Now()
	var timing rollout.Timing
	var err error
	for pause := firstPause / 2; ; pause = min(2*pause, lastPause) {
		rest := a.rest()
		if err != nil {
			rest = max(rest, pause/2+rand.N(pause)) // many games see the same end of an API
		}
		if time.Since(began)+rest > patience {
			if err == nil {
				err = unavailable(fmt.Errorf("it asked for patience, and is asked again in %s", rest.Round(time.Second)))
			}
			return rollout.Completion{}, err
		}
		if err := retry.Pause(ctx, rest); err != nil {
			return rollout.Completion{}, err
		}
		var c rollout.Completion
		c, err = a.call(ctx, req, &timing)
		if ctx.Err() != nil {
			return rollout.Completion{}, ctx.Err()
		}
		a.outage.Note(time.Now(), causeOf(err))
		if err == nil {
			timing.QueueSec = time.Since(began).Seconds() - timing.ExecSec
			c.Timing = timing
			return c, nil
		}
		if rollout.CodeOf(err) != rollout.CodePolicyUnavailable {
			return rollout.Completion{}, err
		}
	}
}

// rest is for how long the API has asked to be left alone.
func (a *api) rest() time.Duration { return max(0, time.Until(time.Unix(0, a.rests.Load()))) }

// call makes one call when there is a place for it.
func (a *api) call(ctx context.Context, req *rollout.Request, timing *rollout.Timing) (rollout.Completion, error) {
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	case <-ctx.Done():
		return rollout.Completion{}, ctx.Err()
	}
	began := time.Now()
	timing.Attempts++
	defer func() { timing.ExecSec += time.Since(began).Seconds() }()
	ctx, cancel := context.WithTimeout(ctx, req.Timeout.Std())
	defer cancel()
	c, err := a.post(ctx, req)
	if ctx.Err() != nil && rollout.CodeOf(err) == rollout.CodePolicyUnavailable {
		err = rollout.Fail(rollout.Retryable, rollout.CodeTimeout, fmt.Errorf("no answer in %s (timeouts.completion)",
			req.Timeout.Std()))
	}
	return c, err
}
