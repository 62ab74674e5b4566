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

// authorize lets a call through if the caller has the permission.
func (s *Server) authorize(hc huma.Context, next func(huma.Context)) {
	id := hc.Operation().OperationID
	needed, known := operations()[id]
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

// lacking says what a grant lacks for an operation; empty: nothing. It does not reveal whether the run exists.
func lacking(g access.Grant, needed operation, run rollout.RunName) string {
	switch {
	case !g.Role.Includes(needed.Role):
		return fmt.Sprintf("this needs the role %s; the token %q has the role %s", needed.Role, g.Name, g.Role)
	case needed.Scope == ofRun && !g.Covers(run):
		return fmt.Sprintf("the token %q is for the runs %s, and not for this one", g.Name, strings.Join(g.Runs, ", "))
	case needed.Scope == ofFleet && !g.CoversAll():
		return fmt.Sprintf("this is about the fleet, which all runs share; the token %q is for the runs %s alone", g.Name,
			strings.Join(g.Runs, ", "))
	}
	return ""
}

// metrics answers Prometheus, for callers who may see every run.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if lacks := lacking(callOf(r.Context()).grant, operation{Role: access.Reader, Scope: ofFleet}, ""); lacks != "" {
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
