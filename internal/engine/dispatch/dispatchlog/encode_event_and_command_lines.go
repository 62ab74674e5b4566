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

// Encode is one event and its commands as a line.
func Encode(at time.Duration, ev dispatch.Event, commands []dispatch.Command) ([]byte, error) {
	line := eventLine{At: at, Event: dispatch.EventName(ev), With: ev}
	for _, c := range commands {
		line.Commands = append(line.Commands, commandLine{dispatch.CommandName(c), c})
	}
	b, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line.Event, err)
	}
	return append(b, '\n'), nil
}
