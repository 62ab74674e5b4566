package supply

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// View is the reported state of a fleet that is scaled: for the API, the command line, the page and metrics.
type View struct {
	At time.Time `json:"at"` // of the newest sample
	// Provider gets engines: process, exec, kubernetes or advise.
	Provider string         `json:"provider"`
	Settings scaling.Config `json:"settings"`
	// Set names the settings that an operator has changed while it ran, which hold instead of the configuration's.
	Set     []string        `json:"set,omitempty"`
	Wanted  int             `json:"wanted"`
	Actual  scaling.Engines `json:"actual"`
	Why     string          `json:"why"`
	Next    time.Time       `json:"next,omitzero"` // when the next change is possible
	Cost    float64         `json:"cost,omitempty"`
	Engines []Engine        `json:"engines,omitempty"` // of the provider, by id
	Sample  scaling.Sample  `json:"sample"`            // what was decided on
	// Decisions are the newest, oldest first; Measured what they did, by number.
	Decisions []scaling.Decision       `json:"decisions,omitempty"`
	Measured  map[int]scaling.Measured `json:"measured,omitempty"`
	// Trouble is why the provider does not do what it is asked for, and since when; empty: it does.
	Trouble      string    `json:"trouble,omitempty"`
	TroubleSince time.Time `json:"trouble_since,omitzero"`
	// Started is how many engines were asked for so far.
	Started int `json:"started"`
	// EndedAt is when scaling ended, because no worker's configuration has it any more: engines are left as they are.
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// Awaits reports a cold start: no engine of the fleet serves, and some start or are about to. It is false when nothing
// scales the fleet, when people start the engines (advise), and while the provider is in trouble: then it is not known
// whether any come.
func (v *View) Awaits(engines []enginestate.Engine) bool {
	if v == nil || v.Provider == "advise" || v.Trouble != "" {
		return false
	}
	ready := func(of enginestate.Engine) bool { return of.State == enginestate.EngineReady }
	return !slices.ContainsFunc(engines, ready) && (v.Wanted == 0 || v.Actual.Starting > 0 || len(engines) == 0)
}

// Overdue is the age of the newest sample if it is so old that the sampler should be checked: a minute, or three times
// a sample's length; else 0.
func (v *View) Overdue(now time.Time) time.Duration {
	usual := time.Duration(v.Sample.Sec * float64(time.Second))
	if age := now.Sub(v.At); age > max(time.Minute, 3*usual) {
		return age
	}
	return 0
}

// HourlyCost is the present engines' cost, in $ per hour; those that never ran cost nothing. 0: not known.
func (v *View) HourlyCost() float64 {
	return v.Settings.Price * float64(v.Actual.Paid())
}

// Engine is one engine that was bought.
type Engine struct {
	ID    rollout.EngineID        `json:"id"`
	State enginestate.EngineState `json:"state"` // starting, ready, draining or stopping
	// Since is when it came into the state, StartedAt when it was asked for, last if that was refused before.
	Since     time.Time         `json:"since"`
	StartedAt time.Time         `json:"started_at"`
	Instance  provider.Instance `json:"instance,omitzero"` // as its provider saw it last
	Reason    string            `json:"reason,omitempty"`
}
