package dispatch

import (
	"cmp"
	"time"
)

// Config bounds a Scheduler. The zero value of a field is its default.
type Config struct {
	MaxQueued   int           // requests waiting, over all runs; default 16384
	MaxTries    int           // failed tries of one request, overload not counted; default 4
	NoEngineTTL time.Duration // a request waits so long for any engine that serves its model; default 1m

	SuspectAfter  int           // failures in a row that stop dispatch to an engine; default 3
	ProbeAfter    time.Duration // suspicion to first probe, doubled each time; default 500ms
	MaxProbeAfter time.Duration // default 10s

	// An engine that lets a request's deadline pass is silent when it gave no sign of life for longer than answered
	// requests take. SignDelay is how late its signs may be heard of, and the least that counts; default 2.5s.
	// Patience is the least for requests with shorter deadlines, taken together; default 10s.
	SignDelay, Patience time.Duration

	OverloadPause    time.Duration // pause after an overload answer that names none, doubled each time; default 100ms
	MaxOverloadPause time.Duration // bounds an engine's Retry-After too; default 5s
	MissingPause     time.Duration // no requests for a model that an engine has just denied, doubled each time; default 5s
	MaxMissingPause  time.Duration // default 1m
	// LoadStaleAfter is for how long an engine's own report of its load is believed; default 10s.
	LoadStaleAfter time.Duration

	// AffinitySlack is how much more outstanding work than the least loaded engine the one that holds a
	// game's prefix may have and still be preferred, in requests of the size at hand; default 8, negative: no affinity.
	AffinitySlack int
	MaxSessions   int // games and groups whose engine is remembered; default 65536

	// Worker spreads schedulers that share engines: each takes engines that are equal in an order of its own. Empty: in
	// the order of their ids.
	Worker string `json:"Worker,omitempty"`
}

const defaultSlack = 8

func (c Config) withDefaults() Config {
	c.MaxQueued = cmp.Or(c.MaxQueued, 16384)
	c.MaxTries = cmp.Or(c.MaxTries, 4)
	c.NoEngineTTL = cmp.Or(c.NoEngineTTL, time.Minute)
	c.SuspectAfter = cmp.Or(c.SuspectAfter, 3)
	c.ProbeAfter = cmp.Or(c.ProbeAfter, 500*time.Millisecond)
	c.MaxProbeAfter = cmp.Or(c.MaxProbeAfter, 10*time.Second)
	c.SignDelay = cmp.Or(c.SignDelay, 2500*time.Millisecond)
	c.Patience = cmp.Or(c.Patience, 10*time.Second)
	c.OverloadPause = cmp.Or(c.OverloadPause, 100*time.Millisecond)
	c.MaxOverloadPause = cmp.Or(c.MaxOverloadPause, 5*time.Second)
	c.MissingPause = cmp.Or(c.MissingPause, 5*time.Second)
	c.MaxMissingPause = cmp.Or(c.MaxMissingPause, time.Minute)
	c.LoadStaleAfter = cmp.Or(c.LoadStaleAfter, 10*time.Second)
	c.AffinitySlack = cmp.Or(c.AffinitySlack, defaultSlack)
	c.MaxSessions = cmp.Or(c.MaxSessions, 65536)
	return c
}
