package telemetry

// SinkChanged reports that the delivery of events to a sink changed its state.
type SinkChanged struct {
	Sink   string    `json:"sink"`
	State  SinkState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Advice string    `json:"advice,omitempty"`
}

var sinkChangedKind = fact[SinkChanged]("sink_changed")

func (SinkChanged) kind() *kind { return sinkChangedKind }

func (b SinkChanged) row(r Row) {
	r["sink"], r["state"] = b.Sink, b.State
	r.text("reason", b.Reason)
	r.text("advice", b.Advice)
}
