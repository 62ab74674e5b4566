package crashtest

import (
	"errors"
	"fmt"
)

// rollbacks is the ledger of what was done to Redis so that it might come back older: each time, the run has noticed
// and reported it, or nothing was lost that a trainer had been told.
type rollbacks struct {
	injected int // came back, while the run went on
	detected int // the account was repaired, and the run says so
	harmless int // it was not, by rule: see mayGoUnnoticed
}

// rolledBack is what is known of one of them.
type rolledBack struct {
	told    bool // a trainer was told something after the moment that Redis came back to
	kept    bool // what was written last before it is there: another node had it
	repairs bool // the account has another era
	shown   bool // and the run says so
}

// mayGoUnnoticed is the rule by which a rollback is harmless: all that trainers were told is still there.
func (r rolledBack) mayGoUnnoticed() bool { return !r.told || r.kept }

// missing is what the service has not done about it.
func (r rolledBack) missing() error {
	switch {
	case r.repairs && !r.shown:
		return errors.New("the run does not show its repair")
	case r.repairs || r.mayGoUnnoticed():
		return nil
	}
	return errors.New("the account goes on as if nothing had happened")
}

// add enters one.
func (b *rollbacks) add(r rolledBack) {
	b.injected++
	switch {
	case r.repairs && r.shown:
		b.detected++
	case !r.repairs && r.mayGoUnnoticed():
		b.harmless++
	}
}

// violation says that they do not add up, or "".
func (b rollbacks) violation() string {
	if b.injected == b.detected+b.harmless {
		return ""
	}
	return fmt.Sprintf("Redis was put back %d times: %d times the run repaired its account and said so, %d times nothing "+
		"was lost that a trainer had been told", b.injected, b.detected, b.harmless)
}
