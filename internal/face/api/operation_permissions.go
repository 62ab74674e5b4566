package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// permission is what an operation asks of its caller. Every operation has one in the table below: one without is
// refused to everybody, and the server does not start.
type permission struct {
	role  access.Role // the least that may
	scope scope
	// data says that it changes only what a trainer changes at each step, of which the step records are the
	// history; every other operation that is no GET is audited.
	data bool
}

// scope is what an operation is about.
type scope int

const (
	ofRun   scope = iota // the run in its path: the caller's runs must hold it
	ofFleet              // what all runs share: the caller's runs must be all
	ofOwn                // each caller is shown what is his
)

var permissions = map[string]permission{
	"start-run":  {role: access.Operator, scope: ofFleet},
	"list-runs":  {role: access.Reader, scope: ofOwn},
	"show-run":   {role: access.Reader},
	"change-run": {role: access.Operator},
	"probe-run":  {role: access.Operator},
	"end-probe":  {role: access.Operator},
	"stop-run":   {role: access.Operator},
	"delete-run": {role: access.Operator},
	"list-waits": {role: access.Reader},

	"attach-trainer": {role: access.Trainer},
	"claim-step":     {role: access.Trainer, data: true},
	"complete-step":  {role: access.Trainer, data: true},
	"list-steps":     {role: access.Reader},
	"show-step":      {role: access.Reader},
	"show-batch":     {role: access.Reader},

	"publish-policy": {role: access.Trainer},
	"list-policies":  {role: access.Reader},
	"show-policy":    {role: access.Reader},

	"list-engines":  {role: access.Reader, scope: ofFleet},
	"show-engine":   {role: access.Reader, scope: ofFleet},
	"add-engine":    {role: access.Operator, scope: ofFleet},
	"drain-engine":  {role: access.Operator, scope: ofFleet},
	"remove-engine": {role: access.Operator, scope: ofFleet},

	"show-fleet":   {role: access.Reader, scope: ofFleet},
	"change-fleet": {role: access.Operator, scope: ofFleet},

	"list-workers": {role: access.Reader, scope: ofFleet},

	"show-status":         {role: access.Reader, scope: ofOwn},
	"list-dead-letters":   {role: access.Reader, scope: ofFleet},
	"replay-dead-letters": {role: access.Operator, scope: ofFleet},
	"drop-dead-letters":   {role: access.Operator, scope: ofFleet},
	"forget-sink":         {role: access.Operator, scope: ofFleet},

	"follow-events":       {role: access.Reader},
	"follow-fleet-events": {role: access.Reader, scope: ofFleet},
	"diagnose-run":        {role: access.Reader},
	"show-game":           {role: access.Reader},
	"list-games":          {role: access.Reader},
	"list-turns":          {role: access.Reader},
	"show-turn":           {role: access.Reader},
}

// authorize lets through who may do what he asks for.
func (s *Server) authorize(hc huma.Context, next func(huma.Context)) {
	id := hc.Operation().OperationID
	needed, known := permissions[id]
	if !known {
		s.refuse(hc, problem(codeForbidden, "nobody may do this: "+id+" has no role"))
		return
	}
	if lacks := lacking(callOf(hc.Context()).grant, needed, rollout.RunName(hc.Param("run")).Plain()); lacks != "" {
		s.refuse(hc, problem(codeForbidden, lacks))
		return
	}
	next(hc)
}

// lacking says what a grant lacks for an operation; empty: nothing. It says nothing of whether the run exists.
func lacking(g access.Grant, needed permission, run rollout.RunName) string {
	switch {
	case !g.Role.Includes(needed.role):
		return fmt.Sprintf("this needs the role %s; the token %q has the role %s", needed.role, g.Name, g.Role)
	case needed.scope == ofRun && !g.Covers(run):
		return fmt.Sprintf("the token %q is for the runs %s, and not for this one", g.Name, strings.Join(g.Runs, ", "))
	case needed.scope == ofFleet && !g.CoversAll():
		return fmt.Sprintf("this is about the fleet, which all runs share; the token %q is for the runs %s alone", g.Name,
			strings.Join(g.Runs, ", "))
	}
	return ""
}

// metrics answers Prometheus, for who may see every run.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if lacks := lacking(callOf(r.Context()).grant, permission{role: access.Reader, scope: ofFleet}, ""); lacks != "" {
		writeProblem(w, r, problem(codeForbidden, lacks))
		return
	}
	s.deps.Metrics.ServeHTTP(w, r)
}

// visible is the runs that the caller may see.
func (s *Server) visible(ctx context.Context, runs []runstatus.RunStatus) []runstatus.RunStatus {
	seen := []runstatus.RunStatus{}
	for _, run := range runs {
		if callOf(ctx).grant.Covers(run.Spec.Name.Plain()) {
			seen = append(seen, s.shown(run))
		}
	}
	return seen
}
