package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// authenticator knows who sends a request by its token.
type authenticator struct {
	grants *access.Grants
	open   bool // no tokens are configured: every caller may do everything
}

// newAuthenticator takes the tokens of the environment, whose holders are operators, and the listed grants, which may
// be nil.
func newAuthenticator(tokens []string, grants *access.Grants) *authenticator {
	a := &authenticator{grants: grants, open: len(tokens) == 0 && grants == nil}
	if grants == nil {
		a.grants = access.NewGrants(GrantsOf(tokens)...)
	}
	return a
}

// GrantsOf makes operators of the bearers of tokens.
func GrantsOf(tokens []string) []access.Grant {
	var grants []access.Grant
	for i, token := range tokens {
		name := "MILLRACE_TOKENS"
		if len(tokens) > 1 {
			name = fmt.Sprintf("MILLRACE_TOKENS[%d]", i)
		}
		grants = append(grants, access.Grant{Name: name, Role: access.Operator, Hash: access.HashOf(token)})
	}
	return grants
}

func (a *authenticator) required() bool { return !a.open }

// identify reads the Authorization header of a request; a request from within the process carries its token in its
// context. refusal says why the caller is unknown.
func (a *authenticator) identify(r *http.Request, now time.Time) (g access.Grant, refusal string) {
	if token, inside := access.HolderOf(r.Context()); inside {
		return a.holder(token, now)
	}
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !a.open && (!found || !strings.EqualFold(scheme, "Bearer")) {
		return g, "send the header: Authorization: Bearer TOKEN, with one of the server's tokens"
	}
	return a.holder(access.HashOf(strings.TrimSpace(token)), now)
}

// holder is the grant of a token's holder.
func (a *authenticator) holder(token access.Hash, now time.Time) (g access.Grant, refusal string) {
	if a.open {
		return access.Everything("local"), ""
	}
	g, known, expired := a.grants.Find(token, now)
	switch {
	case !known:
		return access.Grant{}, "the token is none of the server's; send one of them in the header: " +
			"Authorization: Bearer TOKEN"
	case expired:
		return access.Grant{}, fmt.Sprintf("the token %q has expired at %s; ask an operator for a new one", g.Name,
			g.Expires.UTC().Format(time.RFC3339))
	}
	return g, ""
}

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

// withdrawn says what the caller of something that goes on and on lacks for it by now; empty: nothing. Its token may
// have been taken away, have expired, or cover less than when the call began.
func withdrawn(hc huma.Context) string {
	grant, refusal := callOf(hc.Context()).again()
	needed := operations()[hc.Operation().OperationID]
	return cmp.Or(refusal, lacking(grant, needed, rollout.RunName(hc.Param("run")).Plain()))
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

// covered says of a run whether the caller may see it.
func covered(ctx context.Context) func(rollout.RunName) bool {
	return func(run rollout.RunName) bool { return callOf(ctx).grant.Covers(run.Plain()) }
}

// visible is the runs that the caller may see.
func (s *Server) visible(ctx context.Context, runs []runstatus.RunStatus) []runstatus.RunStatus {
	seen := []runstatus.RunStatus{}
	for _, run := range runs {
		if covered(ctx)(run.Spec.Name) {
			seen = append(seen, s.shown(run))
		}
	}
	return seen
}
