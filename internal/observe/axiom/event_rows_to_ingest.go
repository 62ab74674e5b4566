package axiom

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
)

// row is a kept event as it is sent.
type row struct {
	scope   rollout.RunName
	record  store.Record
	at      int64 // its time as it is sent, in nanoseconds
	line    []byte
	refusal string // why it cannot be sent at all
}

// rowMaker makes rows of one batch. Axiom names a refused event by its time alone, which another system may have cut to
// microseconds: within a batch no two rows have the same.
type rowMaker struct {
	taken map[int64]bool // microseconds
}

func newRowMaker() *rowMaker { return &rowMaker{taken: map[int64]bool{}} }

// row makes a row of a kept event. An event of a kind that only a newer program version knows is sent as text.
func (m *rowMaker) row(scope rollout.RunName, r store.Record) row {
	out := row{scope: scope, record: r}
	var fields telemetry.Row
	var at time.Time
	event, err := r.Event()
	switch {
	case err == nil:
		fields, at = telemetry.Flat(event), event.At
	case errors.Is(err, telemetry.ErrUnknownKind):
		fields, at, err = unknown(r)
	}
	if err != nil {
		out.refusal = "cannot be read: " + oneLine(err.Error())
		return out
	}
	out.at = m.unique(at.UnixNano())
	fields["_time"] = time.Unix(0, out.at).UTC().Format(time.RFC3339Nano)
	line, err := json.Marshal(finite(fields))
	if err != nil {
		out.refusal = "cannot be written as JSON: " + oneLine(err.Error())
		return out
	}
	out.line = line
	return out
}

func (m *rowMaker) unique(ns int64) int64 {
	for m.taken[ns/1000] {
		ns += 1000
	}
	m.taken[ns/1000] = true
	return ns
}

// unknown is the row of an event of an unknown kind: the common fields, and the rest as text.
func unknown(r store.Record) (telemetry.Row, time.Time, error) {
	var head struct {
		Kind   string    `json:"kind"`
		At     time.Time `json:"_time"`
		ID     string    `json:"event_id"`
		Run    string    `json:"run_id"`
		Engine string    `json:"engine_id"`
	}
	if err := json.Unmarshal(r.Data, &head); err != nil {
		return nil, time.Time{}, err
	}
	if head.ID == "" || head.At.IsZero() {
		return nil, time.Time{}, fmt.Errorf("an event of kind %q without event_id or _time", head.Kind)
	}
	fields := telemetry.Row{"kind": head.Kind, "event_id": head.ID, "unknown_json": string(r.Data)}
	if head.Run != "" {
		fields["run_id"] = head.Run
	}
	if head.Engine != "" {
		fields["engine_id"] = head.Engine
	}
	return fields, head.At, nil
}

// finite leaves out numbers that JSON cannot say.
func finite(fields telemetry.Row) telemetry.Row {
	for name, value := range fields {
		switch v := value.(type) {
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				delete(fields, name)
			}
		case map[string]float64:
			for key, x := range v {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					delete(v, key)
				}
			}
		}
	}
	return fields
}
