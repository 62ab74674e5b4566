package runstatus

import "time"

// Alarm is something that keeps a run's games from being played, and that somebody must do something about.
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
	AlarmNoWorker  AlarmCode = "no_worker"        // no worker process is alive
	AlarmNoEngine  AlarmCode = "no_engine"        // no engine is ready
	AlarmModel     AlarmCode = "model_not_served" // no engine serves the run's model
	AlarmGamesFail AlarmCode = "games_fail"       // every try at a game fails
)

// AlarmCodes lists the alarms, the one that hides the others first.
func AlarmCodes() []AlarmCode {
	return []AlarmCode{AlarmNoWorker, AlarmNoEngine, AlarmModel, AlarmGamesFail}
}
