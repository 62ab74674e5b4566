// Package noworker says that no worker plays games or takes changes. It needs only the workers, so that a process that
// looks at nothing else need not know the other alarms. Start reading at Alarm.
package noworker

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Alarm is raised when none of the workers, alive or not, is alive.
func Alarm(now time.Time, workers []enginestate.Worker) (a runstatus.Alarm, raised bool) {
	a = runstatus.Alarm{Code: runstatus.AlarmNoWorker, Advice: "start one: millrace worker"}
	workers = slices.DeleteFunc(slices.Clone(workers), func(w enginestate.Worker) bool { return w.Serves })
	if slices.ContainsFunc(workers, func(w enginestate.Worker) bool { return w.State == enginestate.WorkerAlive }) {
		return a, false
	}
	if len(workers) == 0 {
		a.Text = "no worker is alive, and none was seen lately: nobody plays games or takes changes"
		return a, true
	}
	last := slices.MaxFunc(workers, func(a, b enginestate.Worker) int { return a.LastSeen.Compare(b.LastSeen) })
	a.Since = last.LastSeen
	ended := "was seen last"
	if last.State == enginestate.WorkerStopped {
		ended = "was stopped"
	}
	a.Text = fmt.Sprintf("no worker is alive since %s: nobody plays games or takes changes; %s %s",
		Span(now.Sub(last.LastSeen)), last.ID, ended)
	return a, true
}
