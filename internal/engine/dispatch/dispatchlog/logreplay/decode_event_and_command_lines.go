package logreplay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
)

// rawLine is a line of a log. The event's fields are decoded once its kind is known.
type rawLine struct {
	At       time.Duration   `json:"at"`
	Event    string          `json:"event"`
	With     json.RawMessage `json:"with"`
	Commands []rawCommand    `json:"commands"`
	End      string          `json:"end"`
	Events   int64           `json:"events"`
}

type rawCommand struct {
	Command string          `json:"command"`
	With    json.RawMessage `json:"with"`
}

// readers read each kind of event, by its name.
var eventReaders = map[string]func(json.RawMessage) (dispatch.Event, error){
	"submit":         readEvent[dispatch.Submit],
	"cancel":         readEvent[dispatch.Cancel],
	"try_ended":      readEvent[dispatch.TryEnded],
	"engine_up":      readEvent[dispatch.EngineUp],
	"engine_sampled": readEvent[dispatch.EngineSampled],
	"engine_drain":   readEvent[dispatch.EngineDrain],
	"engine_down":    readEvent[dispatch.EngineDown],
	"engine_probed":  readEvent[dispatch.EngineProbed],
	"run_rules":      readEvent[dispatch.RunRules],
	"run_over":       readEvent[dispatch.RunOver],
	"tick":           readEvent[dispatch.Tick],
}

var commandReaders = map[string]func(json.RawMessage) (dispatch.Command, error){
	"send":    readCommand[dispatch.Send],
	"abandon": readCommand[dispatch.Abandon],
	"reject":  readCommand[dispatch.Reject],
	"probe":   readCommand[dispatch.Probe],
	"opened":  readCommand[dispatch.Opened],
	"closed":  readCommand[dispatch.Closed],
	"wake":    readCommand[dispatch.Wake],
}

func readEvent[E dispatch.Event](raw json.RawMessage) (dispatch.Event, error) {
	var ev E
	err := strictly(raw, &ev)
	return ev, err
}

func readCommand[C dispatch.Command](raw json.RawMessage) (dispatch.Command, error) {
	var c C
	err := strictly(raw, &c)
	return c, err
}

// strictly reads JSON and refuses what its type does not have: it was written by another version.
func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// event decodes the event of a line.
func (l *rawLine) event() (dispatch.Event, error) {
	read, ok := eventReaders[l.Event]
	if !ok {
		return nil, fmt.Errorf("there is no event %q", l.Event)
	}
	ev, err := read(l.With)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Event, err)
	}
	return ev, nil
}

// commands decodes the scheduler's commands of a line.
func (l *rawLine) commands() ([]dispatch.Command, error) {
	commands := make([]dispatch.Command, len(l.Commands))
	for i, raw := range l.Commands {
		read, ok := commandReaders[raw.Command]
		if !ok {
			return nil, fmt.Errorf("there is no command %q", raw.Command)
		}
		var err error
		if commands[i], err = read(raw.With); err != nil {
			return nil, fmt.Errorf("%s: %w", raw.Command, err)
		}
	}
	return commands, nil
}
