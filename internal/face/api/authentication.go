package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/access"
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
