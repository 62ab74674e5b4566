package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// verdict is the result of one canary.
type verdict uint8

const (
	proven    verdict = iota // it makes completions, of the model that was asked for
	undecided                // it has too much to do, or is about to be found restarted
	doubtful                 // no good answer; several in a row break the engine
	broken                   // no good answer, and none to be expected
)

// maxDoubts is how many doubtful canaries in a row an engine is allowed.
const maxDoubts = 3

// judge classifies the end of a canary. working: the engine generated tokens meanwhile, so a late canary may just have
// waited in its queue.
func judge(err error, working bool) verdict {
	switch code := rollout.CodeOf(err); {
	case err == nil:
		return proven
	case code == rollout.CodeOverloaded, code == rollout.CodeUnknownModel, code == rollout.CodeCancelled:
		return undecided
	case code == rollout.CodeTimeout && !working:
		return broken
	case code == rollout.CodeTimeout, code == rollout.CodeEngineError, code == rollout.CodeBadAnswer,
		code == rollout.CodeAborted,
		code == rollout.CodeEngineGone:
		return doubtful
	}
	return broken
}

// canaryEnd is how one canary ended.
type canaryEnd struct {
	verdict verdict
	err     error
}

// canary is an engine's known ability to make completions. An engine that answers every other call may still hang here,
// or answer with another model.
type canary struct {
	provedAt time.Time // it made a completion, or generated tokens
	askedAt  time.Time // the latest canary that was answered
	doubts   int       // in a row
	// After a quarantine the next one is at least twice as long, until the engine has been well for as long as the
	// longest.
	pause  time.Duration
	freeAt time.Time // end of the quarantine
}

// progressed notes that the engine generated tokens.
func (c *canary) progressed(now time.Time) { c.provedAt = now }

// forcedEvery is how many quiet times an engine that generates tokens goes without a canary: its answers may
// still not arrive.
const forcedEvery = 4

// due reports whether an engine in this state should be sent a canary.
func (c *canary) due(now time.Time, state enginestate.EngineState, quiet time.Duration) bool {
	switch state {
	case enginestate.EngineQuarantined:
		return !now.Before(c.freeAt)
	case enginestate.EngineReady:
		return c.doubts > 0 || now.Sub(c.provedAt) >= quiet || now.Sub(c.askedAt) >= forcedEvery*quiet
	}
	return false
}

// ended takes in a canary's end, and returns whether the engine is proven and, if it is broken, why. For an engine that
// is quarantined, one doubt is enough.
func (c *canary) ended(now time.Time, end canaryEnd, quarantined bool, cfg *KeeperConfig) (ok bool, fault string) {
	switch end.verdict {
	case proven:
		if now.Sub(c.freeAt) > cfg.QuarantineMax {
			c.pause = 0
		}
		c.provedAt, c.askedAt, c.doubts = now, now, 0
		return true, ""
	case undecided:
		c.askedAt = now
		return false, ""
	case doubtful:
		c.doubts++
		if c.doubts < maxDoubts && !quarantined {
			return false, ""
		}
	}
	return false, c.quarantine(now, "makes no completions: "+end.err.Error(), cfg)
}

// quarantine begins a quarantine, and returns why.
func (c *canary) quarantine(now time.Time, why string, cfg *KeeperConfig) string {
	c.doubts = 0
	c.pause = min(max(2*c.pause, cfg.Quarantine), cfg.QuarantineMax)
	c.freeAt = now.Add(c.pause)
	return why
}

// canaryRequest asks for one token.
func canaryRequest(engine rollout.EngineID, model string, timeout time.Duration) rollout.Request {
	return rollout.Request{
		ID: "canary/" + string(engine), Agent: "canary", Model: model, Prompt: "1, 2, 3,",
		Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 1}, Timeout: rollout.Duration(timeout),
	}
}

// sendCanary asks the engine for one token of a model.
func (l *engineLoop) sendCanary(ctx context.Context, model string) canaryEnd {
	answer, err := l.client.Complete(ctx, canaryRequest(l.member.ID, model, l.cfg.CanaryTimeout))
	if ctx.Err() != nil {
		return canaryEnd{undecided, ctx.Err()}
	}
	l.canaryUsage.InputTokens += int64(len(answer.PromptTokenIDs))
	l.canaryUsage.OutputTokens += int64(len(answer.TokenIDs))
	v := judge(err, false)
	if rollout.CodeOf(err) == rollout.CodeTimeout {
		v = judge(err, l.working(ctx))
	}
	if err != nil {
		err = fmt.Errorf("canary on %s: %w", model, err)
	}
	return canaryEnd{v, err}
}

// working reports whether the engine has generated tokens since it was last looked at, other than the canary's one.
func (l *engineLoop) working(ctx context.Context) bool {
	if l.last == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.ProbeTimeout)
	defer cancel()
	sample, err := l.client.Metrics(ctx)
	return err == nil && sample.GenerationTokens > l.last.sample.GenerationTokens+1
}

// canaryModel is the newest wanted adapter that the engine serves, or else its base model; "" for none.
func canaryModel(want Desired, models []vllm.Model) string {
	roots := adapterRoots(models)
	for i := len(want.Adapters) - 1; i >= 0; i-- {
		a := want.Adapters[i]
		if root, loaded := roots[a.Name]; loaded && samePath(root, a.Path) {
			return a.Name
		}
	}
	for _, base := range baseModels(models) {
		return base
	}
	return ""
}
