package live

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Homes is the agreement among workers on the engine where games of a group begin, so that they share its prefix there.
type Homes interface {
	// Claim returns the engine where a part of a group's games begin: the one that the first worker proposed. lost is
	// an engine that can no longer be it: the first worker to report the loss proposes its successor. It returns soon
	// after ctx is done.
	Claim(ctx context.Context, group rollout.GroupRef, part int, proposal, lost rollout.EngineID) (rollout.EngineID, error)
}

// groupPart is a part of a group: that many games, by their sample numbers, begin on one engine.
type groupPart struct {
	group rollout.GroupRef
	part  int
	model string
}

// groupHomes is the event loop's knowledge of the engines where groups begin.
type groupHomes struct {
	perEngine map[rollout.RunName]int // games of a group that begin on one engine; absent: no homes
	known     map[groupPart]rollout.EngineID
	asked     map[groupPart][]*call    // that wait for an answer
	begun     map[rollout.EngineID]int // parts of groups at home there, of late
}

const (
	mostHomes   = 1 << 14     // known at a time; what is forgotten is asked for again
	claimWithin = time.Second // then games begin where this worker sees fit
)

func newGroupHomes() groupHomes {
	return groupHomes{perEngine: map[rollout.RunName]int{}, known: map[groupPart]rollout.EngineID{},
		asked: map[groupPart][]*call{}, begun: map[rollout.EngineID]int{}}
}

// follow takes in a run's rules.
func (h *groupHomes) follow(run rollout.RunName, rules *runspec.Dispatch) {
	if rules.GroupPerEngine > 0 && rules.Policy != runspec.RoundRobin && rules.AffinitySlack >= 0 {
		h.perEngine[run] = rules.GroupPerEngine
		return
	}
	delete(h.perEngine, run)
}

// forget drops a run.
func (h *groupHomes) forget(run rollout.RunName) {
	delete(h.perEngine, run)
	maps.DeleteFunc(h.known, func(p groupPart, _ rollout.EngineID) bool { return p.group.Run == run })
}

// fade halves what is known of where groups began, so that it is a matter of late.
func (h *groupHomes) fade() {
	for id, n := range h.begun {
		if h.begun[id] = n / 2; n < 2 {
			delete(h.begun, id)
		}
	}
}

// homed submits a call once its game's home is known. Only the first call of a part of a group waits for the answer; if
// none comes soon, this worker's own proposal is used.
func (o *eventLoop) homed(c *call) {
	h := &o.homes
	per := h.perEngine[c.req.Episode.Run]
	if per <= 0 || o.d.cfg.Homes == nil {
		o.submit(c, "")
		return
	}
	part := groupPart{c.req.Episode.GroupRef, c.req.Episode.Sample / per, c.req.Model}
	at, known := h.known[part]
	if known && o.begins(at, part.model) {
		o.submit(c, at)
		return
	}
	waiting, asking := h.asked[part]
	h.asked[part] = append(waiting, c)
	if !asking {
		o.claim(part, at)
	}
}

// claim asks for the home of a part of a group. lost is the former home, which is gone; empty: not known.
func (o *eventLoop) claim(part groupPart, lost rollout.EngineID) {
	proposal := o.propose(part)
	if proposal == "" {
		o.agreed(part, "")
		return
	}
	o.background.Go(func() {
		ctx, cancel := context.WithTimeout(o.ctx, claimWithin)
		defer cancel()
		at, err := o.d.cfg.Homes.Claim(ctx, part.group, part.part, proposal, lost)
		if err != nil {
			at = ""
		}
		o.d.post(func(o *eventLoop) {
			if at != "" && at != lost && !o.begins(at, part.model) {
				o.claim(part, at) // another worker has chosen an engine that is lost, or not seen here yet
				return
			}
			o.agreed(part, at)
		})
	})
}

// agreed submits the calls that have waited for their home; empty: there is no agreement.
func (o *eventLoop) agreed(part groupPart, at rollout.EngineID) {
	h := &o.homes
	if at != "" {
		if len(h.known) >= mostHomes {
			clear(h.known)
		}
		h.known[part] = at
		h.begun[at]++
	}
	waiting := h.asked[part]
	delete(h.asked, part)
	for _, c := range waiting {
		if c.ctx.Err() == nil {
			o.submit(c, at)
		}
	}
}

// begins reports whether games of a model may begin at an engine.
func (o *eventLoop) begins(id rollout.EngineID, model string) bool {
	r := o.remotes[id]
	return r.state == enginestate.EngineReady && r.models[model]
}

// propose is the engine where the fewest parts of groups began of late; of equals, each group takes another one first.
func (o *eventLoop) propose(part groupPart) rollout.EngineID {
	var able []rollout.EngineID
	for id := range o.remotes {
		if o.begins(id, part.model) {
			able = append(able, id)
		}
	}
	if len(able) == 0 {
		return ""
	}
	name := part.group.String()
	return slices.MinFunc(able, func(a, b rollout.EngineID) int {
		return cmp.Or(cmp.Compare(o.homes.begun[a], o.homes.begun[b]),
			cmp.Compare(rollout.SpreadHash(name, string(a)), rollout.SpreadHash(name, string(b))), cmp.Compare(a, b))
	})
}

// submitted is the scheduler's event for a call.
func (o *eventLoop) submitted(c *call, home rollout.EngineID) dispatch.Submit {
	deadline, _ := c.ctx.Deadline()
	return dispatch.Submit{Request: dispatch.Request{
		ID: c.id, Episode: c.req.Episode, Model: c.req.Model, Deadline: deadline,
		PromptTokens: c.req.PromptTokens, OutputTokens: c.req.OutputTokens, Home: home,
	}}
}
