package fleet

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// DefaultMaxInFlight is the default limit of an engine: what vLLM runs at once by default.
const DefaultMaxInFlight = 256

// Member is one engine as its operator wants it.
type Member struct {
	ID          rollout.EngineID `json:"id"`
	URL         string           `json:"url"`
	MaxInFlight int              `json:"max_in_flight"`
	Drain       bool             `json:"drain,omitempty"`  // finish what runs, take nothing new
	Now         bool             `json:"now,omitempty"`    // do not wait for what runs: dispatch it elsewhere
	Leave       bool             `json:"leave,omitempty"`  // out of the fleet, when drained
	Source      string           `json:"source,omitempty"` // list that named it; empty: an operator did
	AddedAt     time.Time        `json:"added_at"`
}

// Observation is one engine as it was last seen.
type Observation struct {
	State    enginestate.EngineState `json:"state"`
	Reason   string                  `json:"reason,omitempty"`
	Since    time.Time               `json:"since"` // of the state
	Models   []string                `json:"models,omitempty"`
	Adapters []string                `json:"adapters,omitempty"`
	Version  string                  `json:"version,omitempty"`
	Load     enginestate.EngineLoad  `json:"load"`

	AdapterSlots int               `json:"adapter_slots,omitempty"`
	NoAdapters   string            `json:"no_adapters,omitempty"`
	Slow         string            `json:"slow,omitempty"`
	Troubles     map[string]string `json:"troubles,omitempty"` // of adapters, by name

	Proofs map[string]enginestate.AdapterProof `json:"proofs,omitempty"` // of adapters that have probes, by name
}

// Engine joins desired and observed state.
func (m Member) Engine(o Observation) enginestate.Engine {
	if o.State == "" {
		o.State, o.Since = enginestate.EngineStarting, m.AddedAt
	}
	if m.Drain && o.State == enginestate.EngineReady {
		// The wish counts at once: nothing new may be sent while the Keeper has yet to notice.
		o.State, o.Reason = enginestate.EngineDraining, ""
	}
	if m.Drain && o.Reason == "" {
		o.Reason = m.drainReason()
	}
	return enginestate.Engine{
		ID: m.ID, URL: m.URL, Source: m.Source, MaxInFlight: m.MaxInFlight, Slow: o.Slow,
		State: o.State, Reason: o.Reason, Since: o.Since, AdapterSlots: o.AdapterSlots, NoAdapters: o.NoAdapters,
		Recalled: m.Drain && m.Now || o.State == enginestate.EngineQuarantined,
		Models:   o.Models, Adapters: o.Adapters, Troubles: o.Troubles, Proofs: o.Proofs,
		Version: o.Version, Load: o.Load,
	}
}

// drainReason says how a draining engine goes.
func (m Member) drainReason() string {
	switch {
	case m.Leave && m.Now:
		return "leaves the fleet; its requests are dispatched elsewhere"
	case m.Leave:
		return "leaves the fleet when it has finished"
	case m.Now:
		return "its requests are dispatched elsewhere"
	}
	return "finishes what it has"
}

// engineIDPattern keeps ids usable in URLs, metric labels and Redis keys.
var engineIDPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._:-]{0,98}[A-Za-z0-9])?$`)

// NewMember checks what an operator asked for and fills in what was left out: the id is then the
// host and port, the limit DefaultMaxInFlight.
func NewMember(e enginestate.Engine, at time.Time) (Member, error) {
	address, err := normalURL(e.URL)
	if err != nil {
		return Member{}, err
	}
	m := Member{ID: e.ID, URL: address.String(), MaxInFlight: e.MaxInFlight, AddedAt: at.UTC()}
	if m.ID == "" {
		m.ID = rollout.EngineID(strings.Trim(strings.NewReplacer("[", "", "]", "").Replace(address.Host), ":"))
	}
	if !engineIDPattern.MatchString(string(m.ID)) {
		return Member{}, rollout.Refuse(rollout.Invalid, "engine id %q: use up to 100 of letters, digits, "+
			"'.', '_', ':' and '-', starting and ending with a letter or digit", string(m.ID))
	}
	switch {
	case m.MaxInFlight < 0:
		return Member{}, rollout.Refuse(rollout.Invalid, "engine %s: max_in_flight is %d; use 1 or more, or 0 for %d",
			m.ID, m.MaxInFlight, DefaultMaxInFlight)
	case m.MaxInFlight == 0:
		m.MaxInFlight = DefaultMaxInFlight
	}
	return m, nil
}

// spellings are the ways to write an address: this machine has three names.
func spellings(address string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	u, err := url.Parse(address)
	if err != nil || !slices.Contains(names, u.Hostname()) {
		return []string{address}
	}
	port := u.Port()
	for i, name := range names {
		u.Host = strings.TrimSuffix(net.JoinHostPort(name, port), ":")
		names[i] = u.String()
	}
	return names
}

func normalURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, rollout.Refuse(rollout.Invalid, "engine address %q: want http://host:port, as in http://10.0.0.5:8000",
			text)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, rollout.Refuse(rollout.Invalid,
			"engine address %q: only scheme, host, port and path belong into it", u.Redacted())
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return nil, rollout.Refuse(rollout.Invalid, "engine address %q: port %s is not 1 to 65535", text, u.Port())
	}
	u.Host = strings.ToLower(u.Host)
	if of := map[string]string{"http": "80", "https": "443"}; u.Port() == of[u.Scheme] { // as without it
		u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	u.Host = strings.TrimSuffix(u.Host, ":")
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	return u, nil
}
