package access

import (
	"crypto/subtle"
	"sync/atomic"
	"time"
)

// Grants are the grants in force. They may be asked while they are replaced.
type Grants struct {
	fixed  []Grant
	listed atomic.Pointer[[]Grant]
}

// NewGrants has grants that stay.
func NewGrants(fixed ...Grant) *Grants {
	g := &Grants{fixed: fixed}
	g.Replace(nil)
	return g
}

// Replace replaces all grants but those that stay.
func (g *Grants) Replace(listed []Grant) { g.listed.Store(&listed) }

// Find returns the grant of a token. Every hash is compared, so that the time taken does not reveal which one matched.
// A token that has expired is found, too, with expired.
func (g *Grants) Find(token Hash, now time.Time) (grant Grant, found, expired bool) {
	for _, grants := range [][]Grant{g.fixed, *g.listed.Load()} {
		for _, one := range grants {
			if subtle.ConstantTimeCompare(token[:], one.Hash[:]) == 1 {
				grant, found = one, true
			}
		}
	}
	return grant, found, found && !grant.Expires.IsZero() && !now.Before(grant.Expires)
}
