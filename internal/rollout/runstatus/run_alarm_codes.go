package runstatus

import "time"

// Alarm is a condition of a run that stays until somebody does something about it.
type Alarm struct {
	Code   AlarmCode `json:"code"`
	Text   string    `json:"text"`           // what is wrong, with figures
	Since  time.Time `json:"since,omitzero"` // zero: not known
	Advice string    `json:"advice"`         // what to do next
}

// AlarmCode is what an alarm is about, as a small enum.
type AlarmCode string

// The alarms.
const (
	AlarmNoWorker        AlarmCode = "no_worker"        // no worker process is alive
	AlarmNoEngine        AlarmCode = "no_engine"        // no engine is ready
	AlarmModel           AlarmCode = "model_not_served" // no engine serves the run's model
	AlarmNoProgram       AlarmCode = "no_program"       // no program plays the games that wait for one
	AlarmGamesFail       AlarmCode = "games_fail"       // every attempt at a game fails
	AlarmVersionRejected AlarmCode = "version_rejected" // the newest policy version was published, and serves nowhere
	AlarmVersionHeld     AlarmCode = "version_held"     // the newest policy version waits for engines that do not serve it
	AlarmTrainerSilent   AlarmCode = "trainer_silent"   // the trainer was not heard of for longer than its steps explain
	AlarmStalled         AlarmCode = "stalled"          // the trainer waits, and no game has ended for too long
)

// AlarmCodes lists the alarms, the one that hides the others first.
func AlarmCodes() []AlarmCode {
	return []AlarmCode{
		AlarmNoWorker, AlarmNoEngine, AlarmModel, AlarmNoProgram, AlarmGamesFail, AlarmVersionRejected, AlarmVersionHeld,
		AlarmTrainerSilent, AlarmStalled,
	}
}

// Awaited says in a word what would clear an alarm.
func (c AlarmCode) Awaited() string { return awaited[c] }

var awaited = map[AlarmCode]string{
	AlarmNoWorker: "worker", AlarmNoEngine: "engine", AlarmModel: "model", AlarmNoProgram: "program",
	AlarmGamesFail: "success", AlarmVersionRejected: "adapter", AlarmVersionHeld: "adapter",
	AlarmTrainerSilent: "trainer", AlarmStalled: "game",
}
