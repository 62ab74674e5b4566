// Package tablerow derives once what tables say of a run, a step, an engine and a game. The tables of the command line,
// the lists of `millrace top` and those of the page take their cells and their grades from here, so that a number is
// the same wherever it is read. It knows the API's documents and no way of drawing. Start reading at RunRow.
package tablerow

import (
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
