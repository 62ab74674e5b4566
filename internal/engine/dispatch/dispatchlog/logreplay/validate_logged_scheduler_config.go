package logreplay

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
)

// possible reports every value of a logged configuration that no scheduler had. Zero is a default.
func possible(c *dispatch.Config) error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
	}{
		{"max queued", c.MaxQueued}, {"max tries", c.MaxTries}, {"open after", c.SuspectAfter},
		{"max sessions", c.MaxSessions},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("dispatch: %s is %d: want at least 1", n.name, n.value))
		}
	}
	for _, p := range []struct {
		name  string
		value time.Duration
	}{
		{"no engine TTL", c.NoEngineTTL}, {"load stale after", c.LoadStaleAfter}, {"sign delay", c.SignDelay},
		{"patience", c.Patience}, {"probe after", c.ProbeAfter}, {"longest probe after", c.MaxProbeAfter},
		{"overload pause", c.OverloadPause}, {"longest overload pause", c.MaxOverloadPause},
		{"missing pause", c.MissingPause}, {"longest missing pause", c.MaxMissingPause},
	} {
		if p.value < 0 {
			errs = append(errs, fmt.Errorf("dispatch: %s is %v: want more than 0", p.name, p.value))
		}
	}
	return errors.Join(errs...)
}
