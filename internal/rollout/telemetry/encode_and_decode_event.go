package telemetry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// ID names the event: RUN/KIND/ENGINE/KEY, with what does not apply left out and "fleet" where no run is named. The
// same fact reported twice has the same id; an event without a key is told apart by its time.
func (e Event) ID() string {
	scope := cmp.Or(string(e.Run), "fleet")
	id := scope + "/" + e.Kind()
	if e.Engine != "" {
		id += "/" + string(e.Engine)
	}
	if e.Key == "" {
		return id + "/" + strconv.FormatInt(e.At.UnixNano(), 10)
	}
	return id + "/" + e.Key
}

// header is the fields that every encoded event has. Bodies use none of these names.
type header struct {
	Kind   string           `json:"kind"`
	At     time.Time        `json:"_time"`
	ID     string           `json:"event_id"`
	Run    rollout.RunName  `json:"run_id,omitempty"`
	Engine rollout.EngineID `json:"engine_id,omitempty"`
	Key    string           `json:"event_key,omitempty"`
}

// Encode writes an event as one JSON object: kind, _time, event_id, run_id, engine_id, and the fields of
// its body beside them. Decode reads it back.
func Encode(e Event) ([]byte, error) {
	head, err := json.Marshal(header{e.Kind(), e.At.UTC(), e.ID(), e.Run, e.Engine, e.Key})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	body, err := json.Marshal(e.Body)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	if bytes.Equal(body, []byte("{}")) {
		return head, nil
	}
	// Two objects become one: {head} and {body} are {head,body}.
	head[len(head)-1] = ','
	return append(head, body[1:]...), nil
}

// ErrUnknownKind is returned for an event that another version of the program wrote and this one does not know.
var ErrUnknownKind = errors.New("no such kind")

// Decode reads what Encode wrote. A kind that it does not know is ErrUnknownKind.
func Decode(b []byte) (Event, error) {
	var h header
	if err := json.Unmarshal(b, &h); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	k, known := kinds[h.Kind]
	if !known {
		return Event{}, fmt.Errorf("decode %q event: %w", h.Kind, ErrUnknownKind)
	}
	body, err := k.decode(b)
	if err != nil {
		return Event{}, fmt.Errorf("decode %q event: %w", h.Kind, err)
	}
	return Event{At: h.At, Run: h.Run, Engine: h.Engine, Key: h.Key, Body: body}, nil
}
