// Package tablerow derives once what tables say of a run, a step, an engine and a game. The tables of the command line,
// the lists of `millrace top` and those of the page take their cells and their grades from here, so that a number is
// the same wherever it is read. It knows the API's documents and no way of drawing. Start reading at RunRow.
package tablerow

import (
	"fmt"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Grade is how grave something is. Each face shows it in its own way: as a colour, a class, or not at all.
type Grade string

// The grades.
const (
	Plain Grade = ""
	Good  Grade = "good"
	Warn  Grade = "warn"
	Bad   Grade = "bad"
)

// RunGrade is how grave a run's state is.
func RunGrade(s runstatus.RunState) Grade {
	switch s {
	case runstatus.RunRunning, runstatus.RunCompleted:
		return Good
	case runstatus.RunFailed, runstatus.RunLost:
		return Bad
	case runstatus.RunPaused, runstatus.RunStarting, runstatus.RunStopped:
		return Warn
	}
	return Plain
}

// EngineGrade is how grave an engine's state is.
func EngineGrade(s enginestate.EngineState) Grade {
	switch s {
	case enginestate.EngineReady:
		return Good
	case enginestate.EngineLost, enginestate.EngineQuarantined:
		return Bad
	case enginestate.EngineStarting, enginestate.EngineLoading, enginestate.EngineDraining:
		return Warn
	}
	return Plain
}

// Span is a duration in its two largest units.
func Span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Ago is how long since a time; a dash for no time.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Span(now.Sub(t)) + " ago"
}

// Seconds writes seconds so that a column of them lines up.
func Seconds(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// Share is a part of a whole; 0 if the whole is 0.
func Share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

func whole(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
