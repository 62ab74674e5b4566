// Package dispatchlog is a scheduler's events and decisions in a file, one event to a line, and their replay: the same
// events at the same times, given to a dispatch.Scheduler in virtual time, must bring the very same commands.
//
// A log begins with a line that says its version, when it began and how the scheduler was configured; it ends with a
// line that says why it ends. Start reading at Writer, then Replay.
package dispatchlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/dispatch"
)

// format and version are what the first line begins with. The version changes with the meaning of a line.
const (
	format  = "millrace dispatch log"
	version = 1
)

// Header is the first line of a log.
type Header struct {
	Format    string          `json:"format"`
	Version   int             `json:"version"`
	Worker    string          `json:"worker,omitempty"`  // whose dispatcher it was
	Program   string          `json:"program,omitempty"` // that wrote the log
	Start     time.Time       `json:"start"`             // from when on times are counted
	Scheduler dispatch.Config `json:"scheduler"`
}

// eventLine is one event and what the scheduler commanded. The last line has an End instead.
type eventLine struct {
	At       time.Duration `json:"at,omitempty"` // nanoseconds since the start
	Event    string        `json:"event,omitempty"`
	With     any           `json:"with,omitempty"`
	Commands []commandLine `json:"commands,omitempty"`

	End    string `json:"end,omitempty"`
	Events int64  `json:"events,omitempty"` // of the whole log, in its last line
}

type commandLine struct {
	Command string `json:"command"`
	With    any    `json:"with"`
}

// The same lines when they are read: what an event is made of is read once its kind is known.
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

// eventName is what a log calls an event.
func eventName(ev dispatch.Event) string {
	switch ev.(type) {
	case dispatch.Submit:
		return "submit"
	case dispatch.Cancel:
		return "cancel"
	case dispatch.TryEnded:
		return "try_ended"
	case dispatch.EngineUp:
		return "engine_up"
	case dispatch.EngineSampled:
		return "engine_sampled"
	case dispatch.EngineDrain:
		return "engine_drain"
	case dispatch.EngineDown:
		return "engine_down"
	case dispatch.EngineProbed:
		return "engine_probed"
	case dispatch.RunRules:
		return "run_rules"
	case dispatch.RunOver:
		return "run_over"
	case dispatch.Tick:
		return "tick"
	}
	panic(fmt.Sprintf("dispatchlog: no name for %T", ev)) // A new event that nobody taught it.
}

// commandName is what a log calls a command.
func commandName(c dispatch.Command) string {
	switch c.(type) {
	case dispatch.Send:
		return "send"
	case dispatch.Abandon:
		return "abandon"
	case dispatch.Reject:
		return "reject"
	case dispatch.Probe:
		return "probe"
	case dispatch.Opened:
		return "opened"
	case dispatch.Closed:
		return "closed"
	case dispatch.Wake:
		return "wake"
	}
	panic(fmt.Sprintf("dispatchlog: no name for %T", c)) // A new command that nobody taught it.
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

// encode is one event and its commands as a line.
func encode(at time.Duration, ev dispatch.Event, commands []dispatch.Command) ([]byte, error) {
	line := eventLine{At: at, Event: eventName(ev), With: ev}
	for _, c := range commands {
		line.Commands = append(line.Commands, commandLine{commandName(c), c})
	}
	b, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line.Event, err)
	}
	return append(b, '\n'), nil
}

// event is the event of a line.
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

// commands is what the line says that the scheduler commanded.
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
