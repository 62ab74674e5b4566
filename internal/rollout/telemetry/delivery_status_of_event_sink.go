package telemetry

import "time"

// SinkState is how the delivery of events to a sink goes.
type SinkState string

// The states of a sink. All but SinkOK have a reason, and those in which somebody must act, advice.
const (
	// SinkOK: what is emitted arrives.
	SinkOK SinkState = "ok"
	// SinkRetrying: the sink does not answer, or answers that something of its own failed. It is tried again.
	SinkRetrying SinkState = "retrying"
	// SinkLimited: the sink takes no more for now: a rate limit, or the month's quota.
	SinkLimited SinkState = "limited"
	// SinkDegraded: the sink refuses us (token, dataset, address): nothing is delivered until somebody acts.
	SinkDegraded SinkState = "degraded"
	// SinkParked: the sink refuses every event for what it is: nothing is given up, and nothing is delivered.
	SinkParked SinkState = "parked"
	// SinkStopped: no server delivers, or none has said so for a while.
	SinkStopped SinkState = "stopped"
)

// SinkStates is all of them.
var SinkStates = []SinkState{SinkOK, SinkRetrying, SinkLimited, SinkDegraded, SinkParked, SinkStopped}

// NeedsAction reports whether nothing is delivered until somebody changes something.
func (s SinkState) NeedsAction() bool {
	return s == SinkDegraded || s == SinkParked || s == SinkStopped
}

// SinkStatus is a sink as the server that delivers to it last described it. Counts are since the sink was first used,
// and add up: Written is Delivered, DeadLetters, Lost() and Backlog.
type SinkStatus struct {
	Sink   string    `json:"sink"`
	Target string    `json:"target,omitempty"` // such as the dataset and the address
	State  SinkState `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	Advice string    `json:"advice,omitempty"`
	// NextTry is when the sink is asked again, if that is not at once.
	NextTry time.Time `json:"next_try,omitzero"`

	Written      int64  `json:"written"`   // facts and samples written to the store, each once
	Delivered    int64  `json:"delivered"` // taken by the sink; a replayed dead letter, too
	DeadLetters  int64  `json:"dead_letters"`
	Backlog      int64  `json:"backlog_events"`         // kept and not delivered yet; replayed dead letters, too
	DeadLettered int64  `json:"dead_lettered"`          // refusals that made dead letters, so far: again after a replay
	LastRefusal  string `json:"last_refusal,omitempty"` // why the last of them was refused

	// What was lost: facts and samples that were let go for the store's bounds, with samples that were refused when there
	// was no room for dead letters; and dead letters that somebody dropped.
	LostFacts   int64 `json:"lost_facts"`
	LostSamples int64 `json:"lost_samples"`
	LostLetters int64 `json:"lost_letters"`

	LagSec      float64   `json:"lag_seconds"`           // age of the oldest fact or sample that is not delivered yet
	Requests    int64     `json:"requests"`              // sent to the sink
	DeliveredAt time.Time `json:"delivered_at,omitzero"` // the last delivery
	UpdatedAt   time.Time `json:"updated_at"`
	Shipper     string    `json:"shipper,omitempty"` // the server that delivers
}

// Lost is how many events are neither delivered nor kept.
func (s SinkStatus) Lost() int64 { return s.LostFacts + s.LostSamples + s.LostLetters }

// Seen is a status as it must be read at a moment: one that was not renewed for a while says that nobody delivers.
func (s SinkStatus) Seen(now time.Time) SinkStatus {
	if s.UpdatedAt.IsZero() || s.State == SinkStopped || now.Sub(s.UpdatedAt) < sinkSilence {
		if !s.UpdatedAt.IsZero() && s.LagSec > 0 {
			s.LagSec += max(0, now.Sub(s.UpdatedAt).Seconds())
		}
		return s
	}
	s.State, s.Since, s.NextTry = SinkStopped, s.UpdatedAt, time.Time{}
	s.Reason = "no server has delivered since"
	s.Advice = "start a server that has AXIOM_TOKEN and AXIOM_DATASET; events stay in the store"
	s.LagSec += now.Sub(s.UpdatedAt).Seconds()
	return s
}

// sinkSilence is how old a status may be: longer than it takes another server to take over.
const sinkSilence = 15 * time.Second
