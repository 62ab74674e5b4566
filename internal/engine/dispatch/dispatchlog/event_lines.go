// Package dispatchlog is a scheduler's events and decisions in a file, one event to a line. The same events at the same
// times must bring the very same commands: package logreplay holds a log to that.
//
// A log begins with a line that says its version, when it began and how the scheduler was configured; it ends with a
// line that says why it ends. Start reading at Writer.
package dispatchlog

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
)

// Format and Version are what the first line begins with. The version changes with the meaning of a line.
const (
	Format  = "millrace dispatch log"
	Version = 1
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

// eventLine is one event and the scheduler's commands. The last line has an End instead.
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

// EventName is an event's name in a log.
func EventName(ev dispatch.Event) string {
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
	panic(fmt.Sprintf("dispatchlog: no name for %T", ev)) // a new event without a name
}

// CommandName is a command's name in a log.
func CommandName(c dispatch.Command) string {
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
	panic(fmt.Sprintf("dispatchlog: no name for %T", c)) // a new command without a name
}

// Encode is one event and its commands as a line.
func Encode(at time.Duration, ev dispatch.Event, commands []dispatch.Command) ([]byte, error) {
	line := eventLine{At: at, Event: EventName(ev), With: ev}
	for _, c := range commands {
		line.Commands = append(line.Commands, commandLine{CommandName(c), c})
	}
	b, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line.Event, err)
	}
	return append(b, '\n'), nil
}
