// Package axiom delivers telemetry events from the event store to Axiom. It is a sink and nothing reads from it: the
// service works, and explains itself, with Axiom slow, refusing or absent.
//
// Nothing is emitted into this package and nothing waits in it but one batch. Events lie in the store; one server of
// a deployment, the one that holds the lease, reads those after the sink's cursor, sends them, and moves the cursor
// when Axiom has accounted for each of them. A server that was paused and comes back finds its fence outdated and
// moves nothing. Delivery is at least once: after a doubtful answer a batch is sent again with the same event_id.
//
// What an answer means is the pure function react; what becomes of a batch over many answers is the pure machine
// delivery. Start reading at Shipper, then isolate_refused_events_in_batch.go and react_to_ingest_answer.go.
package axiom

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Name is this sink's, in cursors, metrics and commands.
const Name = "axiom"

// Config says where to deliver and in what portions; zero values take the defaults named.
type Config struct {
	Token   string
	Dataset string
	URL     string // DefaultURL, if empty
	OrgID   string // needed with personal tokens only

	BatchCount int           // events per request; 5,000
	BatchBytes int           // of their JSON; 1 MB
	Poll       time.Duration // how often the store is looked at for new events; 1s
	Timeout    time.Duration // of a request; 30s
	Lease      time.Duration // after which another server takes over from one that is dead; 5s

	Transport http.RoundTripper // nil: one that asks the environment for a proxy
	Jitter    func() float64    // spreads retries, in [0,1); nil: random
}

// DefaultURL is Axiom's own address.
const DefaultURL = "https://api.axiom.co"

// validate says what of a configuration cannot be right.
func (c Config) validate() error {
	var faults []error
	if c.Dataset == "" {
		faults = append(faults, errors.New("no dataset named"))
	}
	switch {
	case c.Token == "":
		faults = append(faults, errors.New("no token"))
	case strings.HasPrefix(c.Token, personalToken) && c.OrgID == "":
		faults = append(faults, errors.New("a personal token (xapt-) works with an organisation alone: use an API "+
			"token (xaat-)"))
	case !strings.HasPrefix(c.Token, apiToken) && !strings.HasPrefix(c.Token, personalToken):
		faults = append(faults, errors.New("the token is not one of Axiom's: they begin with xaat-"))
	}
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		faults = append(faults, fmt.Errorf("address %q: want one such as %s", c.URL, DefaultURL))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("axiom: %w", err)
	}
	return nil
}

// Tokens are told apart by how they begin.
const (
	apiToken      = "xaat-"
	personalToken = "xapt-"
)

func (c Config) withDefaults() Config {
	c.BatchCount = cmp.Or(c.BatchCount, 5_000)
	c.BatchBytes = cmp.Or(c.BatchBytes, 1<<20)
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Lease = cmp.Or(c.Lease, 5*time.Second)
	c.URL = cmp.Or(c.URL, DefaultURL)
	return c
}
