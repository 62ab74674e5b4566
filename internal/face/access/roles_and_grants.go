// Package access decides permissions: a Grant gives the bearer of a token a role, and, for all but operators, the runs
// that it covers. It knows tokens by their hashes alone. It knows no HTTP: api asks. Start reading at Grant, Grants and
// ReadTokens.
package access

import (
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Role is a set of permissions; each role includes the one before.
type Role string

// The roles.
const (
	Reader   Role = "reader"   // read
	Trainer  Role = "trainer"  // and claim, record, publish and attach
	Operator Role = "operator" // and start, change and stop runs, and change the fleet
)

// Roles is every role, the least first.
func Roles() []Role { return []Role{Reader, Trainer, Operator} }

// Includes reports whether r may do what other may.
func (r Role) Includes(other Role) bool {
	return slices.Index(Roles(), other) >= 0 && slices.Index(Roles(), r) >= slices.Index(Roles(), other)
}

// Grant is the permissions of one token.
type Grant struct {
	Name    string // of its holder, in audits and logs
	Role    Role
	Runs    []string // patterns such as diplomacy-*; an operator's are not asked. None: no run
	Hash    Hash
	Expires time.Time // zero: never
}

// Everything is the grant of callers without a token: a server without tokens serves its own machine only.
func Everything(name string) Grant { return Grant{Name: name, Role: Operator} }

// CoversAll reports whether the grant is for every run, and with them for the fleet, which serves them all.
func (g Grant) CoversAll() bool { return g.Role == Operator || slices.Contains(g.Runs, "*") }

// Covers reports whether the grant is for a run.
func (g Grant) Covers(run rollout.RunName) bool {
	return g.CoversAll() || slices.ContainsFunc(g.Runs, func(pattern string) bool {
		match, err := path.Match(pattern, string(run))
		return err == nil && match
	})
}

// runPattern is a run's name with stars in it.
var runPattern = regexp.MustCompile(`^[a-z0-9*][a-z0-9._*-]{0,127}$`)

// ValidPattern reports whether a pattern can match a run's name.
func ValidPattern(pattern string) bool { return runPattern.MatchString(pattern) }
