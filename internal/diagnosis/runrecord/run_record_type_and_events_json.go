// Package runrecord is a run's whole record in one document: its spec and state, its step records, events of the run
// and the fleet, samples of engines and queues, the engines. Calibration, plan and diagnosis read it where no server is
// at hand. The document is JSON with a format and a version; it is written by `millrace run record` and read strictly.
// It may be gzipped.
//
// Start reading at Record.
package runrecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Format is the name by which a record says what it is, and Version the newest version of it. A version that adds
// fields is a new one: an older program would not know what they mean, and says so.
const (
	Format  = "millrace-run-record"
	Version = 2
)

// Record is a run as it was when it was recorded.
type Record struct {
	Format     string    `json:"format"`
	Version    int       `json:"version"`
	RecordedAt time.Time `json:"recorded_at"`
	Recorder   string    `json:"recorder,omitempty"` // version of the program that wrote it
	// Run is the run's spec and state.
	Run runstatus.RunStatus `json:"run"`
	// Departures is how the run's groups left so far.
	Departures []steprecord.LengthCount `json:"departures,omitempty"`
	// Steps are the step records, in order, each once. The latest may not be done.
	Steps []steprecord.StepRecord `json:"steps"`
	// Engines are those that the fleet had when the run was recorded.
	Engines []enginestate.Engine `json:"engines"`
	// Events are the run's and the fleet's, samples among them, in order of time. What the step records say is left out.
	Events Events `json:"events"`
	// Alarms are what stopped the games when the run was recorded. Since version 2.
	Alarms []runstatus.Alarm `json:"alarms,omitempty"`
	// Older is the summary of the steps before Steps, if there were more; package diagnosis reads it. Since version 2.
	Older json.RawMessage `json:"older,omitempty"`
	// Gaps describes what is missing: the service keeps so many events, and details of so many steps.
	Gaps []string `json:"gaps,omitempty"`
}

// Events are telemetry events as telemetry.Encode writes them.
type Events []telemetry.Event

// MarshalJSON writes the events one by one.
func (events Events) MarshalJSON() ([]byte, error) {
	encoded := make([]json.RawMessage, len(events))
	for i, e := range events {
		var err error
		if encoded[i], err = telemetry.Encode(e); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
	}
	return json.Marshal(encoded)
}

// UnmarshalJSON reads what MarshalJSON wrote. Kinds of events that only another version of the program knows are left
// out: they are additions.
func (events *Events) UnmarshalJSON(data []byte) error {
	var encoded []json.RawMessage
	if err := json.Unmarshal(data, &encoded); err != nil {
		return err
	}
	read := make(Events, 0, len(encoded))
	for i, one := range encoded {
		e, err := telemetry.Decode(one)
		if errors.Is(err, telemetry.ErrUnknownKind) {
			continue
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		read = append(read, e)
	}
	*events = read
	return nil
}

// Done is the records of steps that are done, in order.
func (r *Record) Done() []steprecord.StepRecord {
	var done []steprecord.StepRecord
	for _, s := range r.Steps {
		if s.Done {
			done = append(done, s)
		}
	}
	return done
}

// LeaveOutOdd takes out the steps that say what cannot be, and says so in Gaps: one of them is no reason to have no
// record of the run.
func (r *Record) LeaveOutOdd() {
	kept := make([]steprecord.StepRecord, 0, len(r.Steps))
	for _, s := range r.Steps {
		if err := validStep(s); err != nil {
			r.Gaps = append(r.Gaps, fmt.Sprintf("step %d, whose record says what cannot be: %v", s.Step, err))
			continue
		}
		kept = append(kept, s)
	}
	r.Steps = kept
}
