package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/access"
)

// authenticator knows who sends a request by its token.
type authenticator struct {
	book *access.Book
	open bool // there are no tokens: whoever reaches the server may do everything
}

// newAuthenticator takes the tokens of the environment, whose holders are operators, and the book, which may be nil.
func newAuthenticator(tokens []string, book *access.Book) *authenticator {
	a := &authenticator{book: book, open: len(tokens) == 0 && book == nil}
	if book == nil {
		a.book = access.NewBook(GrantsOf(tokens)...)
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

// identify reads an Authorization header. refusal says why nobody is known by it.
func (a *authenticator) identify(header string, now time.Time) (g access.Grant, refusal string) {
	if a.open {
		return access.Everything("local"), ""
	}
	scheme, token, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return g, "send the header: Authorization: Bearer TOKEN, with one of the server's tokens"
	}
	g, known, expired := a.book.Find(strings.TrimSpace(token), now)
	switch {
	case !known:
		return access.Grant{}, "the token is none of the server's; send one of them in the header: Authorization: Bearer TOKEN"
	case expired:
		return access.Grant{}, fmt.Sprintf("the token %q has expired at %s; ask an operator for a new one", g.Name, g.Expires.UTC().Format(time.RFC3339))
	}
	return g, ""
}
