// Package top is millrace top: runs, engines, a run's steps and games on one screen of a terminal. It is a state
// machine: Events come in (keys, a new size, answers of the server), Commands go out, and View draws the state. It
// calls no server, and knows no terminal: package cli drives it.
//
// Start reading at Model.Update, then View.
package top

import (
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Event is what happens to the screen.
//
//sumtype:decl
type Event interface{ event() }

type (
	// Key is a key that was pressed, by its name: "j", "down", "enter", "esc", "ctrl+c".
	Key string
	// Resized is the terminal's size, in characters.
	Resized struct{ Width, Height int }
	// Ticked is the time; about once a second.
	Ticked struct{ At time.Time }
	// Overview is the runs and engines, or why they were not to be had.
	Overview struct {
		At      time.Time
		Runs    []tablerow.Run
		Engines []enginestate.Engine
		Fleet   *supply.View  // nil: it is not scaled
		Name    string        // the deployment's; empty: it has none
		Wrong   []api.Trouble // with what all runs share, the gravest first
		Unknown bool          // what there is: what keeps it does not answer
		Err     error
	}
	// RunRead is a run with its latest steps, oldest first.
	RunRead struct {
		At    time.Time
		Of    rollout.RunName
		Run   tablerow.Run
		Steps []steprecord.StepRecord
		Err   error
	}
	// GamesRead is a run's games, in the order that was asked for.
	GamesRead struct {
		Of   rollout.RunName
		Page gamelist.Page
		Err  error
	}
	// Acted is how a change ended.
	Acted struct {
		What string
		Err  error
	}
)

func (Key) event()       {}
func (Resized) event()   {}
func (Ticked) event()    {}
func (Overview) event()  {}
func (RunRead) event()   {}
func (GamesRead) event() {}
func (Acted) event()     {}

// Command is something to be done; its outcome comes back as an Event.
//
//sumtype:decl
type Command interface{ command() }

type (
	// ReadOverview asks for an Overview.
	ReadOverview struct{}
	// ReadRun asks for a RunRead.
	ReadRun struct{ Run rollout.RunName }
	// ReadGames asks for a GamesRead.
	ReadGames struct {
		Run  rollout.RunName
		Sort string
	}
	// Pause pauses or resumes a run, and asks for an Acted.
	Pause struct {
		Run    rollout.RunName
		Paused bool
	}
	// Quit ends the program.
	Quit struct{}
)

func (ReadOverview) command() {}
func (ReadRun) command()      {}
func (ReadGames) command()    {}
func (Pause) command()        {}
func (Quit) command()         {}

// ErrorOf is why an event brings nothing; nil: it does.
func ErrorOf(e Event) error {
	switch e := e.(type) {
	case Overview:
		return e.Err
	case RunRead:
		return e.Err
	case GamesRead:
		return e.Err
	case Acted:
		return e.Err
	case Key, Resized, Ticked:
	}
	return nil
}
