package diagnosis

import (
	"cmp"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Report is the diagnosis of a run's records. Durations are in seconds, shares are of 1.
type Report struct {
	Run      rollout.RunName `json:"run"`
	Verdict  Verdict         `json:"verdict"`
	Severity Severity        `json:"severity"`
	Brief    string          `json:"brief,omitempty"`      // the first finding in a few words, with share and price: "publish 8 %, $0.4/h"
	Loss     float64         `json:"loss_share,omitempty"` // of the time, by the first finding; 0: not known
	Summary  string          `json:"summary"`
	Findings []Finding       `json:"findings"` // the gravest first; none for a healthy run

	Steps       int          `json:"steps"` // looked at
	From        rollout.Step `json:"from_step"`
	To          rollout.Step `json:"to_step"`
	Prefill     *Prefill     `json:"prefill,omitempty"`
	Levels      []Level      `json:"levels"`
	Shifts      []Shift      `json:"shifts"`
	Rise        *Shift       `json:"rise,omitempty"` // from the last fast level to the present one, if slower now
	Oscillation *Oscillation `json:"oscillation,omitempty"`
	Starvation  *Starvation  `json:"starvation,omitempty"`
	Regime      Regime       `json:"regime"`
	Replay      *Fit         `json:"replay,omitempty"`
	WhatIfs     []WhatIf     `json:"what_ifs"`
	Causes      []Cause      `json:"causes"`  // with what speaks for each
	Goodput     float64      `json:"goodput"` // share of the ledger's wall time that was useful compute
	Ledger      *Ledger      `json:"ledger,omitempty"`
	OldShifts   []OldShift   `json:"old_shifts,omitempty"` // among steps that are no longer looked at one by one
	Missing     []string     `json:"missing"`              // evidence that would be needed to say more
	Fleet       []FleetEvent `json:"fleet_events"`         // of late, whether they cost anything or not
	NotLookedAt []string     `json:"not_looked_at"`        // known of the run, now or once, and not in this report
	Notes       []string     `json:"notes"`
	Scaling     []string     `json:"scaling,omitempty"` // what it did for the run, and does now; empty: not scaled
	Next        []string     `json:"next"`              // commands

	// StepCost is the present cost of a step's engines, in $; see Price.
	StepCost float64 `json:"dollars_per_step,omitempty"`
}

// Verdict is a report in one word.
type Verdict string

// The verdicts.
const (
	VerdictHealthy  Verdict = "healthy"
	VerdictProblem  Verdict = "problem"             // steps are slower than they could be, or teach nothing, now
	VerdictHealed   Verdict = "healed"              // it was so and no longer is
	VerdictWarning  Verdict = "warning"             // steps will become slower, or much of the work is lost
	VerdictNoAnswer Verdict = "not_enough_evidence" // too few steps to judge
)

// Basis says where a number comes from.
type Basis string

// The bases. Modelled numbers are never added to measured ones.
const (
	Measured Basis = "measured"
	Fitted   Basis = "fitted" // by a curve, to what was measured
	Modelled Basis = "modelled"
)

// Finding is one thing that is wrong with the run: what, since when, and the evidence.
type Finding struct {
	Cause    CauseName     `json:"cause"`
	Verdict  Verdict       `json:"verdict"` // problem, healed or warning
	Since    *rollout.Step `json:"since_step,omitempty"`
	Text     string        `json:"text"`
	Evidence []Evidence    `json:"evidence"`
	Fix      *Fix          `json:"fix,omitempty"`

	starved bool // it is about the trainer waiting now
}

// Evidence is one line that speaks for a finding.
type Evidence struct {
	Text  string `json:"text"`
	Basis Basis  `json:"basis"`
}

// Prefill is the wait before the first step. It belongs to no level.
type Prefill struct {
	WaitSec    float64 `json:"wait_seconds"`
	ReadyDepth float64 `json:"ready_depth"` // batches ready when step 0 began
}

// Level is a stretch of steps of about the same length. Means leave the slow steps out.
type Level struct {
	From       rollout.Step                 `json:"from_step"`
	To         rollout.Step                 `json:"to_step"`
	Steps      int                          `json:"steps"`
	StepSec    float64                      `json:"step_seconds"`
	PhaseSec   map[steprecord.Phase]float64 `json:"phase_seconds"` // they sum to StepSec
	Wait       []WaitPart                   `json:"wait_parts"`    // they sum to PhaseSec["wait"]
	ReadyDepth float64                      `json:"ready_depth"`   // batches ready when claimed
	SlotShare  float64                      `json:"slot_share"`
	BusyShare  float64                      `json:"busy_share"`
	Engines    float64                      `json:"engines"`
}

// Waits reports whether the trainer waits in it long enough to matter.
func (l Level) Waits() bool { return l.PhaseSec[steprecord.PhaseWait] >= minWaitShare*l.StepSec }

// WaitPart is where the group that completed the batch was while the trainer waited for it.
type WaitPart struct {
	Place Place   `json:"place"`
	Sec   float64 `json:"seconds"`
}

// Place is where a group may be between its launch and the trainer.
type Place string

// The places, in the order in which a group passes them.
const (
	PlaceLaunch   Place = "not_launched"  // the run had not asked for it
	PlaceStart    Place = "not_started"   // launched, no request dispatched: no slot, or no worker
	PlaceQueue    Place = "request_queue" // between turns, in the dispatch queue
	PlaceModel    Place = "engine"        // being generated
	PlaceEnv      Place = "environment"
	PlaceOther    Place = "other"    // between turns: staggered episodes, checkpoints, commit
	PlaceHandover Place = "handover" // ready, on its way to the trainer
	PlaceUnknown  Place = "unknown"  // no timeline was recorded
)

// Shift is a change of level with its exact attribution to phases.
type Shift struct {
	At        rollout.Step     `json:"at_step"`
	Confirmed bool             `json:"confirmed"`
	Ratio     float64          `json:"ratio"`
	DeltaSec  float64          `json:"delta_seconds"` // of the means; the phases sum to it
	Phases    []PhaseDelta     `json:"phases"`
	First     steprecord.Phase `json:"first_cause"` // the phase that moved most in the shift's direction
	Events    []Event          `json:"events"`      // within a step of the shift
}

// PhaseDelta is one phase's part of a shift.
type PhaseDelta struct {
	Phase     steprecord.Phase `json:"phase"`
	BeforeSec float64          `json:"before_seconds"`
	AfterSec  float64          `json:"after_seconds"`
	DeltaSec  float64          `json:"delta_seconds"`
	Share     float64          `json:"share"` // of the shift
}

// Oscillation is a step time that repeats itself.
type Oscillation struct {
	Period  int     `json:"period_steps"`
	LowSec  float64 `json:"low_seconds"`
	HighSec float64 `json:"high_seconds"`
	MeanSec float64 `json:"mean_seconds"`
}

// Starvation is the trainer waiting for batches, measured directly.
type Starvation struct {
	Since   rollout.Step  `json:"since_step"`
	Until   *rollout.Step `json:"until_step,omitempty"` // first step after it; absent while it lasts
	Steps   int           `json:"steps"`                // starved ones since
	WaitSec float64       `json:"wait_seconds"`         // mean per step since
	Share   float64       `json:"share"`                // of the step time since
}

// RegimeKind names the limit of the step time.
type RegimeKind string

// The regimes.
const (
	ComputeBound  RegimeKind = "compute-bound"
	CapacityBound RegimeKind = "capacity-bound"
	LatencyBound  RegimeKind = "latency-bound"
	// UndecidedRegime: steps are as long as games take, and whether games take so long because engines are saturated
	// cannot be told from the loads that the run has seen. See Regime.Probe.
	UndecidedRegime RegimeKind = "undecided"
	NoRegime        RegimeKind = "unknown" // not enough evidence
)

// Resource is the scarce resource of a capacity-bound run.
type Resource string

// The resources.
const (
	EngineSlots Resource = "engine_slots"
	WorkerSlots Resource = "worker_slots"
	// EngineSpeed: engines have free slots, and are saturated all the same: more requests in flight make each slower.
	EngineSpeed Resource = "engine_speed"
	// EngineMemory: the engines' KV caches are full, and requests wait inside them or are preempted, beside free slots.
	EngineMemory Resource = "kv_memory"
	// AdapterSlots: games use more adapters at once than an engine has in a batch, and requests wait for each other's.
	AdapterSlots Resource = "adapter_slots"
)

// Regime is what limits the step time, with what was measured of it.
type Regime struct {
	Kind     RegimeKind   `json:"kind"`
	Resource Resource     `json:"resource,omitempty"` // when capacity-bound
	StepSec  float64      `json:"step_seconds"`       // observed, now: the mean over the steps From to To
	From     rollout.Step `json:"from_step"`
	To       rollout.Step `json:"to_step"`
	// ComputeSec is what the trainer needs for a step beside waiting, and LatencySec what a batch's slowest group takes
	// from its launch on, without queueing; 0: not known. Depth is the batches outstanding.
	ComputeSec float64    `json:"compute_seconds"`
	LatencySec float64    `json:"latency_seconds,omitempty"`
	Depth      int        `json:"depth"`
	Evidence   []Evidence `json:"evidence"`
	// Load is how fast the engines are at the load that they have; nil when the records do not show what they did.
	Load *EngineLoad `json:"engine_load,omitempty"`
	// Probe is the experiment that decides an undecided regime.
	Probe *Probe `json:"probe,omitempty"`
}

// EngineLoad is how engines answer at a load, fitted to what they were seen to do in all of the record: with n requests
// in flight, one takes (1 + (n/h)^k)^(1/k) times as long as alone.
type EngineLoad struct {
	InFlight float64 `json:"in_flight"` // requests at an engine, now: n
	Half     float64 `json:"half"`      // h, in requests; 0: requests do not feel each other
	Knee     float64 `json:"knee"`      // k
	// Observations counts the points that the curve was fitted to; Error is their median distance from it, as a share.
	Observations int     `json:"observations"`
	Error        float64 `json:"median_error"`
	Basis        Basis   `json:"basis"`
	SeenLow      float64 `json:"seen_low"` // loads that the record shows
	SeenHigh     float64 `json:"seen_high"`
	// Slowdown is how many times as long a request takes as alone.
	Slowdown float64 `json:"slowdown"`
	// Rise is the share of one more request in flight that becomes throughput: near 0, engines are saturated; near 1,
	// they have room. It lies between RiseLow and RiseHigh.
	Rise     float64 `json:"rise"`
	RiseLow  float64 `json:"rise_low"`
	RiseHigh float64 `json:"rise_high"`
	Decided  bool    `json:"decided"`
}

// Probe is an experiment with a running run that decides what its record cannot.
type Probe struct {
	Command      string  `json:"command"`
	Text         string  `json:"text"`
	MaxInFlight  int     `json:"max_in_flight"` // requests in flight at each engine meanwhile
	Steps        int     `json:"steps"`
	SaturatedSec float64 `json:"saturated_step_seconds"` // what a step then takes if engines are saturated
	FreeSec      float64 `json:"free_step_seconds"`      // and if they have room
}

// Fit is how well the replay of what happened meets what happened.
type Fit struct {
	MedianError float64       `json:"median_error"` // of step times, the worse of the whole run and the current level
	Explains    bool          `json:"explains"`     // within 10 %: what-ifs are worth showing
	StepSec     float64       `json:"step_seconds"` // steady state of the replay
	Onset       *rollout.Step `json:"onset_step,omitempty"`
}

// Outcome is a change's effect.
type Outcome string

// The outcomes.
const (
	Helps    Outcome = "helps"
	HelpsNot Outcome = "does not help"
	// MayHelp: some of the engines that the record allows make it help, others do not.
	MayHelp Outcome = "may help"
	Worse   Outcome = "makes it worse"
)

// WhatIf is a change and the step time that the replay predicts with it.
type WhatIf struct {
	Change  string        `json:"change"`
	Outcome Outcome       `json:"outcome"`
	StepSec float64       `json:"step_seconds"` // steady state, modelled
	LowSec  float64       `json:"low_seconds"`  // nine of ten such changes end between them
	HighSec float64       `json:"high_seconds"`
	Onset   *rollout.Step `json:"onset_step,omitempty"` // first starved step; absent when none is
	Note    string        `json:"note,omitempty"`
	Command string        `json:"command,omitempty"`             // that makes the change
	Staler  bool          `json:"needs_max_staleness,omitempty"` // trains on older games than the run allows
	Engines float64       `json:"engines,omitempty"`             // that there are with the change
	// StepCost is the cost of a step's engines with the change, in $; see Report.Price.
	StepCost float64 `json:"dollars_per_step,omitempty"`
	Basis    Basis   `json:"basis"`

	deeper bool // it is about depth
}

// CauseName names a candidate.
type CauseName string

// The candidates. A report decides each of them that its records can say something about.
const (
	// Terms of the step time: nothing changed, and they limit from the start.
	CauseThroughput CauseName = "throughput"
	CauseLatency    CauseName = "latency"
	CauseWorkers    CauseName = "workers"
	CauseStarvation CauseName = "starvation" // the trainer waits, and why is not known

	// The trainer and what is between it and the buffer.
	CauseTrainer     CauseName = "trainer" // its own phases
	CauseRefLogprobs CauseName = "ref_logprobs"
	CauseCheckpoint  CauseName = "checkpoint"
	CausePublish     CauseName = "publish"  // the trainer is slower to publish its weights
	CauseHandover    CauseName = "handover" // a batch that is ready is slow to reach the trainer

	// The engines.
	CauseEngineSlow   CauseName = "engine_slow" // a token takes longer, at the same load
	CauseAdapterLoad  CauseName = "adapter_load"
	CauseAdapterSlots CauseName = "adapter_slots" // a batch holds fewer adapters than games use
	CauseEngineLost   CauseName = "engine_lost"
	CauseEngineBack   CauseName = "engine_back" // lost, and returned
	CauseScaleDown    CauseName = "scale_down"
	CauseColdEngines  CauseName = "cold_engines"
	CauseOwnLimit     CauseName = "own_limit" // the run may have fewer requests in flight than the engines take
	CauseOtherWork    CauseName = "other_work"
	CauseKVLimited    CauseName = "kv_limited" // their KV caches are full before their slots are

	// The work of a batch: seconds per token x tokens per request x requests per game x games per batch.
	CauseLongerCompletions CauseName = "longer_completions"
	CauseLongerPrompts     CauseName = "longer_prompts"
	CauseLowerPrefixHits   CauseName = "lower_prefix_hits"
	CauseRefInRollouts     CauseName = "ref_in_rollouts" // engines do what the trainer did: reference log-probs
	CauseLongerGames       CauseName = "longer_games"
	CauseMoreGames         CauseName = "more_games"     // more are played for a batch: larger groups, refills, retries
	CauseDrops             CauseName = "dropped_groups" // as in all steps alike
	CauseStaleDrops        CauseName = "stale_groups"   // dropped because they became too stale
	CauseStraggler         CauseName = "straggler"      // one group of a batch, or one game of a group
	CauseEnvironment       CauseName = "environment"

	CauseNoRewardVariance CauseName = "no_reward_variance" // rewards are equal, and nothing is learnt
	CauseConfig           CauseName = "config_change"      // an operator's
	CauseThrottle         CauseName = "throttle"           // a bound keeps the run below its depth
	CauseStaleWait        CauseName = "stale_wait"         // on_stale: wait holds a batch that has enough groups

	// Steps unlike the others.
	CausePeriodicPhase CauseName = "periodic_phase" // something that the trainer does every so many steps
	CauseRarePhase     CauseName = "rare_phase"     // the same, now and then
	CauseSingleStep    CauseName = "single_step"    // one step alone was slow
	CauseRestart       CauseName = "restart"        // another trainer process took over
	CausePaused        CauseName = "paused"         // the run was paused, or its engines were not back yet
	CauseBetweenSteps  CauseName = "between_steps"  // the trainer had completed a step and asked for no other

	// Alarms: the games are not played at all.
	CauseNoWorker  = CauseName(runstatus.AlarmNoWorker)
	CauseNoEngine  = CauseName(runstatus.AlarmNoEngine)
	CauseModel     = CauseName(runstatus.AlarmModel)
	CauseGamesFail = CauseName(runstatus.AlarmGamesFail)
)

// Decision is the conclusion about a candidate.
type Decision string

// The decisions.
const (
	IsCause     Decision = "cause"
	Contributes Decision = "contributes"
	Possible    Decision = "possible"
	Undecided   Decision = "no evidence" // the data to decide is missing

	notACause Decision = "" // and in no report
)

// Cause is a candidate with the decision and its reason.
type Cause struct {
	Name     CauseName `json:"cause"`
	Decision Decision  `json:"decision"`
	Text     string    `json:"text"`
	Basis    Basis     `json:"basis"`
	// Share is how much of the effect goes with the cause, by the model: of the jump, or else of the wait.
	Share *Share `json:"share,omitempty"`
	// Began is the step in which the cause set in, Felt the one whose batch was the first to show it.
	Began    *rollout.Step `json:"began_step,omitempty"`
	Felt     *rollout.Step `json:"felt_step,omitempty"`
	Event    *Event        `json:"event,omitempty"` // that explains it
	Evidence []Evidence    `json:"evidence,omitempty"`
	Fix      *Fix          `json:"fix,omitempty"`
}

// Share is a share of an effect, with its bounds, between which nine of ten lie.
type Share struct {
	Of   float64 `json:"of"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// What it is a share of: the jump, or the loss, which is all time that was no useful compute.
	What string `json:"what"`
}

// What a Share may be of.
const (
	OfJump = "jump"
	OfLoss = "loss"
)

// Fix is the way to remove a cause.
type Fix struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"` // that does it; empty when none does
}

// EventKind says what an event changed.
type EventKind string

// The event kinds.
const (
	EventConfig       EventKind = "config" // an operator's change
	EventEngineJoined EventKind = "engine_joined"
	EventEngineLost   EventKind = "engine_lost"
	EventEngineLeft   EventKind = "engine_left" // drained or removed
	EventTrainer      EventKind = "trainer"     // restarted
	EventOther        EventKind = "other"
)

// Event is something that was done to the run or its fleet.
type Event struct {
	At   time.Time `json:"at"`
	Kind EventKind `json:"kind"`
	Text string    `json:"text"`
}

// FleetEvent is something that was done to the fleet, with the step that it fell into.
type FleetEvent struct {
	Step rollout.Step `json:"step"`
	Event
}

var phaseTexts = map[steprecord.Phase]string{
	steprecord.PhaseWait: "waiting for batches", steprecord.PhaseLoad: "loading batches",
	steprecord.PhaseRefLogprobs: "reference log-probs", steprecord.PhaseTrain: "training",
	steprecord.PhasePublish: "publishing weights", steprecord.PhaseCheckpoint: "checkpoints",
}

// PhaseText is how a phase is called in a sentence.
func PhaseText(p steprecord.Phase) string { return cmp.Or(phaseTexts[p], "other work of the trainer") }

// Price says what a step costs, now and with each of the changes, at so many $ per engine and hour.
func (r *Report) Price(perEngineHour float64) {
	if n := len(r.Levels); n > 0 {
		r.StepCost = perEngineHour * r.Levels[n-1].Engines * r.Regime.StepSec / 3600
	}
	if r.StepCost == 0 && perEngineHour > 0 {
		r.Notes = append(r.Notes, "no step has a price: the records do not say how many engines there were")
	}
	for i := range r.WhatIfs {
		w := &r.WhatIfs[i]
		w.StepCost = perEngineHour * w.Engines * w.StepSec / 3600
	}
}

// Priced reports whether steps have a price.
func (r *Report) Priced() bool { return r.StepCost > 0 }
