package axiom

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Bounds of waiting.
const (
	firstPause = time.Second
	maxPause   = time.Minute     // while Axiom does not answer
	maxLimit   = 5 * time.Minute // while a limit holds
	parkPause  = time.Minute     // while a person has to change something
	maxOdd     = 2               // further tries of events that an answer does not account for, before they are split
	maxOddOne  = 8               // the same of a single event, before it is refused
)

// statusQuota is Axiom's own: the month's ingest is used up.
const statusQuota = 430

// action is what to do about an answer.
type action int

const (
	accounted action = iota // the answer says for every event whether it was taken
	again                   // send the same events again, after the pause
	split                   // send them in halves: some may pass
	sample                  // as split, but see first whether any event passes at all
	refused                 // the one event is refused for what it is
	park                    // nothing passes until a person changes something; ask again after the pause
)

// reaction is an action, the pause before the next request, and the sink's new state.
type reaction struct {
	act    action
	pause  time.Duration
	state  telemetry.SinkState
	reason string
	advice string
}

// react decides about the answer to the n-th try (from 0) of sending some events. Nothing is given up but a single
// event that Axiom refuses for what it is; whether even that may be believed is decided by batchDelivery, which knows
// whether anything passes.
func react(a answer, events, try int, now time.Time, jitter float64) reaction {
	switch {
	case a.failure != nil:
		return unreachable(a.failure, try, jitter)
	case a.status >= 200 && a.status <= 299:
		return account(a, events, try, jitter)
	}
	switch a.status {
	case http.StatusTooManyRequests, statusQuota:
		return limited(a, try, now)
	case http.StatusRequestEntityTooLarge:
		return reaction{act: one(events, refused, split), state: telemetry.SinkOK,
			reason: fmt.Sprintf("413: %s", a.message)}
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if fieldLimit(a.message) {
			return reaction{park, parkPause, telemetry.SinkParked,
				fmt.Sprintf("Axiom refuses the events: %d: %s", a.status, a.message), fieldLimitAdvice}
		}
		return reaction{act: one(events, refused, sample), state: telemetry.SinkOK,
			reason: fmt.Sprintf("%d: %s", a.status, a.message)}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return reaction{park, parkPause, telemetry.SinkDegraded,
			fmt.Sprintf("Axiom refuses: %d: %s", a.status, a.message), refusalAdvice[a.status]}
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusConflict, http.StatusLocked:
		return retrying(a, try, jitter)
	}
	if a.status >= 500 {
		return retrying(a, try, jitter)
	}
	return reaction{park, parkPause, telemetry.SinkDegraded,
		fmt.Sprintf("what answers is not Axiom's ingest: %d: %s", a.status, a.message), addressAdvice}
}

// Advice, by what is wrong.
var refusalAdvice = map[int]string{
	http.StatusUnauthorized: "check AXIOM_TOKEN: it may have expired or been deleted; then restart the servers with the " +
		"new one",
	http.StatusForbidden: "check that AXIOM_TOKEN may ingest into the dataset, and that the dataset's name is right; a " +
		"permission given in Axiom is noticed within a minute",
	http.StatusNotFound: "create the dataset in Axiom, or correct AXIOM_DATASET or axiom.dataset, and axiom.url",
}

const (
	addressAdvice    = "check axiom.url (AXIOM_URL), and proxies on the way (HTTPS_PROXY)"
	fieldLimitAdvice = "the dataset has as many fields as it may: remove fields that nobody queries (Axiom: dataset " +
		"settings, vacuum fields), or make open-ended ones map fields (millrace axiom apply); it is tried again every minute"
	refusedAdvice = "see the reason: Axiom takes none of the waiting events; nothing is given up, and it is tried again " +
		"every minute"
	quotaAdvice = "the month's ingest is used up: raise the plan's limit in Axiom, or wait; events stay in the store"
)

// account reads an answer of success, which may still account for less than all.
func account(a answer, events, try int, jitter float64) reaction {
	switch {
	case a.brokeOff && try < maxOddOne: // something on the way cut it: the events may have been taken or not
		return reaction{again, backoff(try, maxPause, jitter), telemetry.SinkRetrying, "Axiom's answer broke off", ""}
	case !a.counted:
		return reaction{park, parkPause, telemetry.SinkDegraded,
			fmt.Sprintf("what answers is not Axiom's ingest: %d: %s", a.status, a.message), addressAdvice}
	case a.ingested+a.failed == int64(events) && a.ingested >= 0 && a.failed >= 0:
		return reaction{act: accounted, state: telemetry.SinkOK}
	}
	odd := fmt.Sprintf("Axiom's answer accounts for %d taken and %d refused of %d events", a.ingested, a.failed, events)
	switch {
	case try < maxOdd || events == 1 && try < maxOddOne:
		return reaction{again, backoff(try, maxPause, jitter), telemetry.SinkRetrying, odd, ""}
	case events > 1:
		return reaction{act: split, state: telemetry.SinkOK, reason: odd}
	}
	return reaction{act: refused, state: telemetry.SinkOK, reason: odd}
}

// limited waits as long as the answer says. Where it says nothing, or nothing that can be, and where coming back as
// told does not help, the pauses grow.
func limited(a answer, try int, now time.Time) reaction {
	pause := min(maxLimit, max(a.wait.pause(now), backoff(try, maxLimit, 1)))
	if a.status == statusQuota {
		return reaction{again, pause, telemetry.SinkLimited, "Axiom takes no more: 430: " + a.message, quotaAdvice}
	}
	return reaction{again, pause, telemetry.SinkLimited, "Axiom limits requests: 429: " + a.message, ""}
}

func retrying(a answer, try int, jitter float64) reaction {
	return reaction{again, backoff(try, maxPause, jitter), telemetry.SinkRetrying,
		fmt.Sprintf("Axiom answers %d: %s", a.status, a.message), ""}
}

// unreachable tries again without end. A faulty certificate needs a person, and is reported.
func unreachable(failure error, try int, jitter float64) reaction {
	r := reaction{again, backoff(try, maxPause, jitter), telemetry.SinkRetrying, "Axiom cannot be reached: " +
		oneLine(failure.Error()), ""}
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	if errors.As(failure, &certificate) || errors.As(failure, &authority) || errors.As(failure, &host) ||
		errors.As(failure, &record) {
		r.state, r.advice = telemetry.SinkDegraded, "check axiom.url (AXIOM_URL), and the system's certificates: "+
			"SSL_CERT_FILE names others"
	}
	return r
}

// fieldLimit reports whether a refusal is about how many fields a dataset may have, and not about one field.
func fieldLimit(message string) bool { return tooManyFields.MatchString(message) }

var tooManyFields = regexp.MustCompile(`(?i)\b(field|column)s?[ -](count )?(limit|quota)\b|\btoo many (fields|columns)\b|` +
	`\b(number|limit|maximum|max|than|exceeds?|exceeded|exceeding)( of| the)?( allowed)?( \d+)? (fields|columns)\b`)

// one is the action about a single event, or about more.
func one(events int, single, more action) action {
	if events == 1 {
		return single
	}
	return more
}

// backoff doubles from a second to most. The whole of it is jitter, so that senders which failed together do not come
// back together, but never less than a tenth.
func backoff(try int, most time.Duration, jitter float64) time.Duration {
	pause := most
	if try < 16 {
		pause = min(most, firstPause<<try)
	}
	return time.Duration(float64(pause) * max(jitter, 0.1))
}
