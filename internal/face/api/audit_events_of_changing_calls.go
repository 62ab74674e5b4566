package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// audit reports every operation that changes something, also one that was refused: who, from where, what, before
// and after. It stands around all operations and takes what each needs from its path, so that a new one is audited
// without doing anything for it.
func (s *Server) audit(hc huma.Context, next func(huma.Context)) {
	op := hc.Operation()
	if !audited(op.Method, op.OperationID) {
		next(hc)
		return
	}
	c := callOf(hc.Context())
	c.run, c.engine = rollout.RunName(hc.Param("run")), rollout.EngineID(hc.Param("id"))
	c.fleet = op.OperationID == "change-fleet"
	before := s.facts(hc.Context(), c)
	next(hc)
	status := hc.Status()
	after := before
	if status < http.StatusBadRequest {
		// The client may have gone; what was done is kept all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(hc.Context()), auditTimeout)
		defer cancel()
		if after = c.after; after == nil {
			after = s.facts(ctx, c)
		}
	}
	a := telemetry.Audit{
		Who: c.grant.Name, Role: string(c.grant.Role), From: c.address, What: op.OperationID, Target: c.target(),
		Status: status, Code: string(c.code), RequestID: c.id,
	}
	a.Before, a.After = differing(before, after)
	run := c.run
	if len(after) == 0 {
		run = "" // There is no such run, or not any more: it is the fleet's to keep.
	}
	if status < http.StatusBadRequest || s.refusals.take(c.grant.Name+" "+c.address, s.deps.Now()) == 0 {
		s.tell(hc.Context(), telemetry.Event{At: s.deps.Now(), Run: run, Engine: c.engine, Key: "audit/" + rand.Text(),
			Body: a})
	}
	s.deps.Log.LogAttrs(hc.Context(), slog.LevelInfo, "audit", slog.String("what", a.What),
		slog.String("target", a.Target), slog.String("who", a.Who),
		slog.String("role", a.Role), slog.String("from", a.From), slog.Int("status", status), slog.String("refused", a.Code),
		slog.Any("before", a.Before), slog.Any("after", a.After), slog.String("request_id", c.id))
}

// auditTimeout bounds the look at what a change has done.
const auditTimeout = 5 * time.Second

// target names the object that a call changes.
func (c *call) target() string {
	switch {
	case c.engine != "":
		return "engine " + string(c.engine)
	case c.run != "":
		return "run " + string(c.run)
	case c.fleet:
		return "fleet"
	}
	return ""
}

// facts is the current state of a call's target, as far as calls can change it; nil when the target does not exist or
// is not known.
func (s *Server) facts(ctx context.Context, c *call) map[string]string {
	switch {
	case c.engine != "":
		if e, err := s.deps.Fleet.Get(ctx, c.engine); err == nil {
			return engineFacts(e)
		}
	case c.fleet:
		if view, is, err := s.deps.Fleet.Scaling(ctx); err == nil && is {
			return settingsFacts(view.Settings)
		}
	case c.run.ValidateID() == nil:
		status, err := s.deps.Store.Status(ctx, c.run)
		if err != nil {
			return nil
		}
		facts := runFacts(status)
		if account, err := s.deps.Store.Account(ctx, c.run); err == nil {
			facts["generation"], facts["next_step"] = fmt.Sprint(account.Generation), fmt.Sprint(account.NextStep)
		}
		return facts
	}
	return nil
}

// runFacts is the part of a run's state that calls can change.
func runFacts(status runstatus.RunStatus) map[string]string {
	facts := spec.Facts(status.Spec)
	facts["state"], facts["reason"] = string(status.State), status.Reason
	facts["policy_version"] = fmt.Sprint(status.PolicyVersion)
	if n := len(status.Policies); n > 0 {
		facts["policy_path"] = status.Policies[n-1].Path
	}
	return facts
}

func engineFacts(e enginestate.Engine) map[string]string {
	return map[string]string{
		"url": e.URL, "max_in_flight": fmt.Sprint(e.MaxInFlight), "draining": fmt.Sprint(
			e.State == enginestate.EngineDraining),
		"recalled": fmt.Sprint(e.Recalled),
	}
}

// changed notes what a run is after a change, for its audit.
func changed(ctx context.Context, status runstatus.RunStatus) {
	c := callOf(ctx)
	c.run = status.Spec.Name
	c.after = runFacts(status)
}

// differing leaves only what is not the same in both.
func differing(before, after map[string]string) (was, is map[string]string) {
	was, is = map[string]string{}, map[string]string{}
	names := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	for _, name := range names {
		old, had := before[name]
		value, has := after[name]
		if old == value || !had && value == "" || !has && after != nil && before != nil {
			continue // What only one of the two looked at says nothing.
		}
		if had && old != "" {
			was[name] = old
		}
		if has && value != "" {
			is[name] = value
		}
	}
	return was, is
}

// audited reports whether an operation is one of those whose changes are reported.
func audited(method, id string) bool {
	return method != http.MethodGet && !operations()[id].Data
}

// tell keeps an event, also when the client has gone.
func (s *Server) tell(ctx context.Context, e telemetry.Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if err := s.deps.Tell.Tell(ctx, e); err != nil {
		s.deps.Log.ErrorContext(ctx, "keep an audit", "event", e.ID(), "error", err)
	}
}
