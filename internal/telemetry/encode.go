package telemetry

import (
	"bytes"
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
	scope := string(e.Run)
	if scope == "" {
		scope = "fleet"
	}
	id := scope + "/" + e.Body.Kind()
	if e.Engine != "" {
		id += "/" + string(e.Engine)
	}
	if e.Key == "" {
		return id + "/" + strconv.FormatInt(e.At.UnixNano(), 10)
	}
	return id + "/" + e.Key
}

// Droppable tells samples, of which any one may be lost, from facts, which must survive.
func (e Event) Droppable() bool {
	return Sample(e.Body.Kind())
}

// Sample reports whether events of a kind are samples.
func Sample(kind string) bool {
	for _, body := range []Body{BufferLevel{}, EngineSample{}, DispatchSample{}} {
		if body.Kind() == kind {
			return true
		}
	}
	return false
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
	head, err := json.Marshal(header{e.Body.Kind(), e.At.UTC(), e.ID(), e.Run, e.Engine, e.Key})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Body.Kind(), err)
	}
	body, err := json.Marshal(e.Body)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Body.Kind(), err)
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
	body, err := decodeBody(h.Kind, b)
	if err != nil {
		return Event{}, fmt.Errorf("decode %q event: %w", h.Kind, err)
	}
	return Event{At: h.At, Run: h.Run, Engine: h.Engine, Key: h.Key, Body: body}, nil
}

func decodeBody(kind string, b []byte) (Body, error) {
	switch kind {
	case Audit{}.Kind():
		return decodeAs[Audit](b)
	case RunChanged{}.Kind():
		return decodeAs[RunChanged](b)
	case StepCompleted{}.Kind():
		return decodeAs[StepCompleted](b)
	case SignalChanged{}.Kind():
		return decodeAs[SignalChanged](b)
	case BatchClaimed{}.Kind():
		return decodeAs[BatchClaimed](b)
	case BufferLevel{}.Kind():
		return decodeAs[BufferLevel](b)
	case AlarmChanged{}.Kind():
		return decodeAs[AlarmChanged](b)
	case GroupReady{}.Kind():
		return decodeAs[GroupReady](b)
	case GroupDropped{}.Kind():
		return decodeAs[GroupDropped](b)
	case EpisodeFinished{}.Kind():
		return decodeAs[EpisodeFinished](b)
	case EpisodeFailed{}.Kind():
		return decodeAs[EpisodeFailed](b)
	case AdapterLoaded{}.Kind():
		return decodeAs[AdapterLoaded](b)
	case AdapterChanged{}.Kind():
		return decodeAs[AdapterChanged](b)
	case PolicyPublished{}.Kind():
		return decodeAs[PolicyPublished](b)
	case EngineChanged{}.Kind():
		return decodeAs[EngineChanged](b)
	case EnginePaced{}.Kind():
		return decodeAs[EnginePaced](b)
	case BreakerChanged{}.Kind():
		return decodeAs[BreakerChanged](b)
	case EngineSample{}.Kind():
		return decodeAs[EngineSample](b)
	case DispatchSample{}.Kind():
		return decodeAs[DispatchSample](b)
	}
	return nil, ErrUnknownKind
}

func decodeAs[T Body](b []byte) (Body, error) {
	var body T
	err := json.Unmarshal(b, &body)
	return body, err
}
