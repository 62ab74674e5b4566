package prom

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Standing is the present state of the deployment, as a server has just read it in Redis. It is shown as read: what is
// gone is not shown, and a server that has just started shows as much as one that has run for days.
type Standing struct {
	Runs    []RunStanding // those that are not over
	Engines []enginestate.Engine
	Workers []enginestate.Worker
	Scaling *supply.View // nil: the fleet is not scaled
}

// RunStanding is one run that is not over.
type RunStanding struct {
	Status runstatus.RunStatus
	// Since is when its latest step was completed, or, if that was later, when it was started or resumed: from then on
	// its next step is waited for.
	Since  time.Time
	Latest []steprecord.StepRecord // completed steps, oldest first, LatestSteps of them at most
}

// LatestSteps is how many records of a run are looked at.
const LatestSteps = 10

// waitSpans is over how many of the latest steps the smallest share of waiting is shown.
var waitSpans = []int{1, 3, LatestSteps}

// Stand shows how the deployment is from now on. Engines that are not in it any more have no levels.
func (m *Metrics) Stand(s Standing) {
	m.Breakers(s.Workers)
	m.mu.Lock()
	defer m.mu.Unlock()
	there := map[rollout.EngineID]bool{}
	for _, e := range s.Engines {
		there[e.ID] = true
		m.set("engine_up", truth(e.State == enginestate.EngineReady), string(e.ID))
	}
	for _, e := range m.standing.Engines {
		if !there[e.ID] {
			m.endLevels(prometheus.Labels{"engine": string(e.ID)})
		}
	}
	m.standing = s
}

// Forget ends every series of a run that is over, after Prometheus has had time to read its last figures: a server that
// shows the runs of a year would show little else.
func (m *Metrics) Forget(run rollout.RunName) {
	m.end(prometheus.Labels{"run": string(run)})
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.over, run)
	delete(m.perStep, run)
}

// standingNow is the standing as metrics.
type standingNow struct{ of *Metrics }

// The states that are shown, each as a series of its own.
var (
	runStates = []runstatus.RunState{
		runstatus.RunRunning, runstatus.RunPaused, runstatus.RunStarting,
	}
	engineStates = []enginestate.EngineState{
		enginestate.EngineStarting, enginestate.EngineLoading, enginestate.EngineReady, enginestate.EngineDraining,
		enginestate.EngineQuarantined, enginestate.EngineLost,
	}
	proofVerdicts = []enginestate.ProofVerdict{enginestate.Proven, enginestate.Unproven, enginestate.DoesNotAct}
	workerStates  = []enginestate.WorkerState{enginestate.WorkerAlive, enginestate.WorkerAbsent, enginestate.WorkerStopped}
)

// Describe names the metrics.
func (s standingNow) Describe(out chan<- *prometheus.Desc) { describe("redis", out) }

// Collect shows the latest standing; nothing before the first.
func (s standingNow) Collect(out chan<- prometheus.Metric) {
	s.of.mu.Lock()
	now := s.of.standing
	s.of.mu.Unlock()
	for _, r := range now.Runs {
		r.collect(out)
	}
	for _, e := range now.Engines {
		for _, state := range engineStates {
			show(out, "engine_state", truth(e.State == state), string(e.ID), string(state))
		}
		for _, verdict := range proofVerdicts {
			if n := e.Proved(verdict); len(e.Proofs) > 0 {
				show(out, "engine_adapter_proofs", float64(n), string(e.ID), string(verdict))
			}
		}
	}
	if now.Scaling != nil {
		collectFleet(now.Scaling, out)
	}
	if now.Workers == nil {
		return
	}
	count := map[enginestate.WorkerState]int{}
	for _, w := range now.Workers {
		count[w.State]++
	}
	for _, state := range workerStates {
		show(out, "workers", float64(count[state]), string(state))
	}
}

func (r RunStanding) collect(out chan<- prometheus.Metric) {
	run := string(r.Status.Spec.Name)
	for _, state := range runStates {
		show(out, "run_state", truth(r.Status.State == state), run, string(state))
	}
	show(out, "run_next_step", float64(r.Status.NextStep), run)
	show(out, "run_progress_timestamp_seconds", float64(r.Since.UnixMilli())/1000, run)
	show(out, "run_rollbacks_total", float64(r.Status.Rollbacks), run)
	for _, n := range waitSpans {
		if share, known := smallestWait(r.Latest, n); known {
			show(out, "step_wait_ratio", share, run, strconv.Itoa(n))
		}
	}
}

// smallestWait is the smallest share that the trainer waited in any of the latest n steps.
func smallestWait(latest []steprecord.StepRecord, n int) (share float64, known bool) {
	if len(latest) < n {
		return 0, false
	}
	share = 1
	for _, r := range latest[len(latest)-n:] {
		if r.StepSec() <= 0 {
			return 0, true
		}
		share = min(share, r.StarvedSec()/r.StepSec())
	}
	return share, true
}

// collectFleet shows a fleet that is scaled.
func collectFleet(v *supply.View, out chan<- prometheus.Metric) {
	for state, n := range map[string]int{
		"starting": v.Actual.Starting, "ready": v.Actual.Ready, "draining": v.Actual.Draining,
	} {
		show(out, "fleet_engines", float64(n), state)
	}
	show(out, "fleet_engines_wanted", float64(v.Wanted))
	show(out, "fleet_engines_started_total", float64(v.Started))
	show(out, "fleet_cost_dollars_total", v.Cost)
	show(out, "fleet_provider_trouble", truth(v.Trouble != ""), v.Provider)
	show(out, "fleet_sampled_timestamp_seconds", float64(v.At.UnixMilli())/1000)
}
