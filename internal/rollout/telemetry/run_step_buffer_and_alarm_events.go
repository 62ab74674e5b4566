package telemetry

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// RunChanged reports a start, a change by an operator, or an end.
type RunChanged struct {
	State  runstatus.RunState `json:"state"`
	Change string             `json:"change"` // what was done: "start", "set buffer.depth=4 (was 2)", "pause"
	Reason string             `json:"reason,omitempty"`
}

var runChangedKind = fact[RunChanged]("run_changed")

func (RunChanged) kind() *kind { return runChangedKind }

func (b RunChanged) row(r Row) {
	r["state"], r["change"] = b.State, b.Change
	r.text("reason", b.Reason)
}

// StepCompleted carries the whole record of a step.
type StepCompleted struct {
	Record steprecord.StepRecord `json:"record"`
}

var stepCompletedKind = fact[StepCompleted]("training_step")

func (StepCompleted) kind() *kind { return stepCompletedKind }

func (b StepCompleted) row(r Row) {
	s := b.Record
	r["step"], r["generation"], r["wall_s"] = s.Step, s.Generation, s.Trainer.WallSec
	r.phases(s.Trainer)
	if len(s.Trainer.Metrics) > 0 {
		r["metrics"] = s.Trainer.Metrics
	}
	v := s.Service
	r["starved_s"], r["prefill_s"] = s.StarvedSec(), s.PrefillSec()
	r.counts(v.AtClaim)
	r["ready_depth"], r["buffer_depth"], r["groups_per_step"] = v.ReadyDepth, v.Depth, v.GroupsPerStep
	r["policy_version"] = v.Version
	r["staleness_min"], r["staleness_max"], r["staleness_mean"] = v.StalenessMin, v.StalenessMax, v.StalenessMean
	r["staleness_in_flight_mean"], r["staleness_in_buffer_mean"] = v.StalenessInFlightMean, v.StalenessInBufferMean
	r["groups"], r["zero_variance_groups"], r["trajectories"] = len(v.Groups), v.ZeroVarianceGroups, v.Trajectories
	if reward := v.Reward(); reward.N > 0 {
		r["reward_mean"] = reward.Mean
	}
	var used rollout.Usage
	for _, g := range v.Groups {
		used = used.Add(g.Usage)
	}
	r.usage(used)
	f := v.Fleet
	r["fleet_window_s"], r["fleet_engines"] = f.WindowSec, f.Engines
	r["fleet_busy_share"], r["fleet_slot_share"] = f.BusyShare, f.SlotShare
	r["fleet_in_flight"], r["fleet_queued_requests"] = f.InFlight, f.QueuedRequests
	r["input_tokens_per_s"], r["output_tokens_per_s"] = f.InputTPS, f.OutputTPS
}

// BatchClaimed reports that a step's batch was formed.
type BatchClaimed struct {
	Step       rollout.Step            `json:"step"`
	Counts     steprecord.BufferCounts `json:"counts"`    // just before
	StarvedSec float64                 `json:"starved_s"` // first asked to formed

	StalenessInFlightMean float64 `json:"staleness_in_flight_mean"`
	StalenessInBufferMean float64 `json:"staleness_in_buffer_mean"`
	ZeroVarianceGroups    int     `json:"zero_variance_groups"`
}

var batchClaimedKind = fact[BatchClaimed]("batch_claimed")

func (BatchClaimed) kind() *kind { return batchClaimedKind }

func (b BatchClaimed) row(r Row) {
	r["step"], r["starved_s"], r["prefill_s"] = b.Step, b.StarvedSec, 0.0
	if b.Step == 0 { // the wait for the first batch fills the buffer
		r["starved_s"], r["prefill_s"] = 0.0, b.StarvedSec
	}
	r["staleness_in_flight_mean"], r["staleness_in_buffer_mean"] = b.StalenessInFlightMean, b.StalenessInBufferMean
	r["zero_variance_groups"] = b.ZeroVarianceGroups
	r.counts(b.Counts)
}

// BufferLevel is a sample of the buffer, and a piece of the series of starvation: over all samples of a run, StarvedSec
// adds up to the waits of its step records, and PrefillSec to the wait before step 0. A sample that tells of a wait is
// a fact. One that tells of a wait besides that of its window has a WindowSec of 0.
type BufferLevel struct {
	Counts     steprecord.BufferCounts    `json:"counts"`
	Target     int64                      `json:"target"`    // groups the run wants outstanding
	StarvedSec float64                    `json:"starved_s"` // that a trainer waited, without the prefill
	PrefillSec float64                    `json:"prefill_s"` // that it waited for the first batch
	Cause      steprecord.StarvationCause `json:"starvation_cause,omitempty"`
	Step       *rollout.Step              `json:"step,omitempty"` // whose batch it waited for
	// MadeUp: the seconds were not seen while they passed, and are made up from what was recorded of the wait.
	MadeUp    bool    `json:"made_up,omitempty"`
	WindowSec float64 `json:"window_s"`

	Throttle       runstatus.Throttle       `json:"throttle,omitempty"` // what keeps the run below its target
	RewardVariance runstatus.RewardVariance `json:"reward_variance,omitzero"`
	Alarms         []runstatus.AlarmCode    `json:"alarms,omitempty"` // that stand
}

var bufferLevelKind = sample[BufferLevel]("buffer_level")

func (BufferLevel) kind() *kind { return bufferLevelKind }

// mustSurvive: the seconds of a wait are in one sample only.
func (b BufferLevel) mustSurvive() bool { return b.StarvedSec > 0 || b.PrefillSec > 0 }

func (b BufferLevel) row(r Row) {
	r["buffer_target"], r["starved_s"], r["window_s"] = b.Target, b.StarvedSec, b.WindowSec
	r["alarms"], r["prefill_s"] = len(b.Alarms), b.PrefillSec
	if b.Cause != "" {
		r["starvation_cause"], r["made_up"] = string(b.Cause), b.MadeUp
	}
	if b.Step != nil {
		r["step"] = *b.Step
	}
	r.text("throttle", string(b.Throttle))
	r.rewardVariance(b.RewardVariance)
	r.counts(b.Counts)
}

// RewardVarianceChanged reports that most groups no longer say anything to a trainer, or do so again;
// RewardVariance.Collapsed tells which.
type RewardVarianceChanged struct {
	RewardVariance runstatus.RewardVariance `json:"reward_variance"`
}

var rewardVarianceChangedKind = fact[RewardVarianceChanged]("reward_variance_changed")

func (RewardVarianceChanged) kind() *kind { return rewardVarianceChangedKind }

func (b RewardVarianceChanged) row(r Row) {
	r["collapsed"] = b.RewardVariance.Collapsed
	r.rewardVariance(b.RewardVariance)
}

// AlarmChanged reports that something keeps a run's games from being played, or does so no longer.
type AlarmChanged struct {
	Raised bool                `json:"raised"`
	Code   runstatus.AlarmCode `json:"code"`
	Text   string              `json:"text,omitempty"` // of one that is raised
	Advice string              `json:"advice,omitempty"`
}

var alarmChangedKind = fact[AlarmChanged]("alarm_changed")

func (AlarmChanged) kind() *kind { return alarmChangedKind }

func (b AlarmChanged) row(r Row) {
	r["raised"], r["code"] = b.Raised, b.Code
	r.text("failure", b.Text)
	r.text("reason", b.Advice)
}

// phases names the known phases apart; the trainer's own, and what no phase accounts for, are "other", and the
// trainer's own are in a map beside it.
func (r Row) phases(t steprecord.StepReport) {
	named := 0.0
	for _, p := range steprecord.Phases() {
		if p != steprecord.PhaseOther {
			r["phase_"+string(p)+"_s"] = t.Phases[p]
			named += t.Phases[p]
		}
	}
	r["phase_other_s"] = max(0, t.WallSec-named)
	if own := ownPhases(t); len(own) > 0 {
		r["own_phases_s"] = own
	}
}

// rewardVariance is left out before the first group.
func (r Row) rewardVariance(s runstatus.RewardVariance) {
	if s.Groups > 0 {
		r["reward_variance_groups"], r["reward_variance_zero_groups"] = s.Groups, s.ZeroVariance
	}
}

func (r Row) counts(c steprecord.BufferCounts) {
	r["buffer_queued"], r["buffer_in_flight"] = c.Queued, c.InFlight
	r["buffer_ready"], r["buffer_claimed"] = c.Ready, c.Claimed
	r["buffer_completed"], r["buffer_dropped"], r["buffer_bytes"] = c.Completed, c.Dropped, c.Bytes
}

// ownPhases are the phases that a trainer named itself.
func ownPhases(t steprecord.StepReport) map[string]float64 {
	own := map[string]float64{}
	for phase, sec := range t.Phases {
		if !slices.Contains(steprecord.Phases(), phase) {
			own[string(phase)] = sec
		}
	}
	return own
}
