package alarm

import (
	"time"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// patience is how long each alarm must last to be reported, and a run must have gone on: engines and workers that are
// started together are not there all at once. The others say that something has lasted.
var patience = map[runstatus.AlarmCode]time.Duration{
	runstatus.AlarmNoWorker: 10 * time.Second, runstatus.AlarmNoEngine: 10 * time.Second,
	runstatus.AlarmModel: 10 * time.Second, runstatus.AlarmNoProgram: 20 * time.Second,
}

// Patience is how long an alarm must last before it is reported.
func Patience(code runstatus.AlarmCode) time.Duration { return patience[code] }
