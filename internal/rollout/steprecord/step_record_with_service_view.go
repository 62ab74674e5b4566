// Package steprecord is what trainer and service know about one step: phases, waits, groups, engines, starvation. What
// to conclude from records is the business of package diagnosis. Start reading at StepRecord.
package steprecord

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Phase names a part of a trainer's step.
type Phase string

// The phases of a step; a trainer may report others, which count as "other".
const (
	PhaseWait        Phase = "wait" // for the batch: starvation
	PhaseLoad        Phase = "load"
	PhaseRefLogprobs Phase = "ref_logprobs"
	PhaseTrain       Phase = "train"
	PhasePublish     Phase = "publish"
	PhaseCheckpoint  Phase = "checkpoint"
	PhaseOther       Phase = "other"
)

// Phases lists the phases in the order in which a step goes through them.
func Phases() []Phase {
	return []Phase{PhaseWait, PhaseLoad, PhaseRefLogprobs, PhaseTrain, PhasePublish, PhaseCheckpoint, PhaseOther}
}

// StepReport is what the trainer says of one step. The trainer is sequential: phases add up to the wall time,
// and what they leave over is PhaseOther.
type StepReport struct {
	WallSec float64            `json:"wall_seconds"`
	Phases  map[Phase]float64  `json:"phases"` // seconds
	Metrics map[string]float64 `json:"metrics,omitempty"`
}

// BufferCounts is the buffer by state, in groups. Each group is in exactly one of Queued, InFlight, Ready and
// Claimed, or has left as Completed or Dropped.
type BufferCounts struct {
	Queued    int64 `json:"queued"`    // launched, no request dispatched yet
	InFlight  int64 `json:"in_flight"` // being played
	Ready     int64 `json:"ready"`     // complete, not claimed
	Claimed   int64 `json:"claimed"`   // given to the trainer, step not completed
	Completed int64 `json:"completed"` // trained on
	Dropped   int64 `json:"dropped"`   // failed or too stale
	Bytes     int64 `json:"bytes"`     // stored trajectories
}

// LengthCount is how many groups left for one reason, by the length of their games: whether what is lost is mostly
// long.
type LengthCount struct {
	Code   rollout.Code `json:"code"` // why they were dropped; "trained" for those that were not
	Groups int64        `json:"groups"`
	// ByLength counts the groups by the mean length of their games in phases: 0, 1, 2-3, 4-7, 8-15 and so on,
	// doubling. Games that were given up count as far as they came.
	ByLength []int64 `json:"by_length"`
}

// LongestBucket is the last bucket of LengthCount.ByLength, which longer games fall into, too.
const LongestBucket = 15

// LengthBucket is the lengths, in phases, that a bucket of LengthCount.ByLength holds, both included.
func LengthBucket(bucket int) (from, to int) {
	if bucket <= 0 {
		return 0, 0
	}
	return 1 << (bucket - 1), 1<<bucket - 1
}

// Trained is the code of a LengthCount of groups that were trained on.
const Trained rollout.Code = "trained"

// ServiceView is what the service itself saw of one step, beside the trainer's own report.
type ServiceView struct {
	FirstAskedAt  time.Time             `json:"first_asked_at"` // first claim
	GrantedAt     time.Time             `json:"granted_at"`     // batch formed
	CompletedAt   time.Time             `json:"completed_at,omitzero"`
	AtClaim       BufferCounts          `json:"at_claim"`    // just before the batch was taken out
	ReadyDepth    float64               `json:"ready_depth"` // ready groups / groups_per_step, just before taking
	Depth         int                   `json:"depth"`
	GroupsPerStep int                   `json:"groups_per_step"`
	Version       rollout.PolicyVersion `json:"trainer_version"`
	StalenessMin  int64                 `json:"staleness_min"`
	StalenessMax  int64                 `json:"staleness_max"`
	StalenessMean float64               `json:"staleness_mean"`
	// A group's staleness is what it gathered in flight, until it was ready, and in the buffer, until it was
	// claimed. The means add up.
	StalenessInFlightMean float64     `json:"staleness_in_flight_mean"`
	StalenessInBufferMean float64     `json:"staleness_in_buffer_mean"`
	ZeroVarianceGroups    int         `json:"zero_variance_groups"` // groups of the batch in which all advantages are zero
	Trajectories          int         `json:"trajectories"`
	Groups                []GroupView `json:"groups"`
	// Results is what came of the games of the batch, by the oldest version that played them, the oldest first. It stays
	// when the record's groups go; none: the step is not completed, or its record is older than this field.
	Results []VersionResults `json:"results,omitempty"`
	// DroppedSoFar is the groups that the run had dropped by then, by why. None: there are none, or the record is older.
	DroppedSoFar map[rollout.Code]int64 `json:"dropped_so_far,omitempty"`
	// StarvedBy is the seconds that the trainer waited for the batch, by what the missing groups were doing. They add
	// up to WaitSec once the service has compared them with the trainer's report, moments after the step is completed.
	StarvedBy map[StarvationCause]float64 `json:"starved_by,omitempty"`
	// Fleet is sampled over the window since the previous batch was granted.
	Fleet FleetView `json:"fleet"`
	// Engines is the same window engine by engine, for those whose metrics are known.
	Engines []enginestate.EngineView `json:"engines,omitempty"`
}

// GroupView is a group's timeline without its tokens: what diagnosis needs.
type GroupView struct {
	Seq          rollout.GroupSeq      `json:"seq"`
	MinVersion   rollout.PolicyVersion `json:"policy_version_min"`
	Times        rollout.GroupTimes    `json:"times"`
	Usage        rollout.Usage         `json:"usage"`
	EpisodeSec   []float64             `json:"episode_seconds"`
	ModelSec     []float64             `json:"model_seconds"`
	QueueSec     []float64             `json:"queue_seconds"`
	EnvSec       []float64             `json:"env_seconds"`
	Phases       []int                 `json:"phases,omitempty"`        // length of each episode
	ZeroVariance bool                  `json:"zero_variance,omitempty"` // all advantages are zero
	// Rewards is the mean reward of each game's trajectories, by sample.
	Rewards []float64 `json:"rewards,omitempty"`
	// AgentRewards is the rewards of each agent by sample, of groups with several.
	AgentRewards map[string][]float64 `json:"agent_rewards,omitempty"`
	Tally        Tally                `json:"tally,omitzero"`
	// Trained is what of it is trained on, in numbers.
	Trained TrainedOn `json:"trained,omitzero"`
	// Orders counts its games by who ended before whom, where players differ.
	Orders map[rollout.Order]int `json:"orders,omitempty"`
}

// LongestEpisode is the position of the longest episode; -1: none is recorded.
func (g *GroupView) LongestEpisode() int {
	longest := -1
	for i, sec := range g.EpisodeSec {
		if longest < 0 || sec > g.EpisodeSec[longest] {
			longest = i
		}
	}
	return longest
}

// ViewOf is a group without its tokens.
func ViewOf(g *rollout.Group) GroupView {
	return GroupView{g.Ref.Seq, g.MinVersion, g.Times, g.Usage, g.EpisodeSec, g.ModelSec, g.QueueSec, g.EnvSec, g.Phases,
		rollout.HasZeroVariance(g.Trajectories), gameRewards(g.Trajectories), agentRewards(g.Trajectories), tallyOf(g),
		trainedOn(g.Trajectories), g.Orders}
}

// gameRewards is the mean reward of each game's trajectories, in the order of the samples.
func gameRewards(trajectories []rollout.Trajectory) []float64 {
	type sum struct{ reward, count float64 }
	games := map[int]sum{}
	for i := range trajectories {
		one := games[trajectories[i].Sample]
		games[trajectories[i].Sample] = sum{one.reward + trajectories[i].Reward, one.count + 1}
	}
	var rewards []float64
	for _, sample := range slices.Sorted(maps.Keys(games)) {
		rewards = append(rewards, games[sample].reward/games[sample].count)
	}
	return rewards
}

// FleetView is the engines over a window of wall time. The rates add up across engines; the shares are means over
// engine-seconds.
type FleetView struct {
	WindowSec      float64 `json:"window_seconds"`
	Engines        float64 `json:"engines"`         // time-weighted mean of ready engines
	BusyShare      float64 `json:"busy_share"`      // share of engine time with at least one running request
	SlotShare      float64 `json:"slot_share"`      // mean in flight / in-flight limit
	InFlight       float64 `json:"in_flight"`       // mean requests in flight per engine
	QueuedRequests float64 `json:"queued_requests"` // mean requests in dispatch queues
	InputTPS       float64 `json:"input_tps"`
	OutputTPS      float64 `json:"output_tps"`
}

// StepRecord is what the trainer and the service know about one step.
type StepRecord struct {
	Step       rollout.Step              `json:"step"`
	Generation rollout.TrainerGeneration `json:"generation"`
	Done       bool                      `json:"done"`
	// Redis came back older than it was, and without the step's record or its batch. The step stays completed, or
	// granted, all the same.
	LostRecord bool        `json:"lost_record,omitempty"`
	LostBatch  bool        `json:"lost_batch,omitempty"`
	Trainer    StepReport  `json:"trainer"`
	Service    ServiceView `json:"service"`
}

// PrefillSec is how long the trainer waited before step 0 while the buffer was filled for the first time. It belongs
// to no step: counting it would make the first step look slow.
func (r StepRecord) PrefillSec() float64 {
	if r.Step != 0 {
		return 0
	}
	return r.Trainer.Phases[PhaseWait]
}

// StepSec is the step's wall time without the prefill.
func (r StepRecord) StepSec() float64 { return r.Trainer.WallSec - r.PrefillSec() }

// StepPhases are the step's phases in seconds, adding up to StepSec: without the prefill, and with what the trainer
// named otherwise, or not at all, as PhaseOther.
func (r StepRecord) StepPhases() map[Phase]float64 {
	phases := map[Phase]float64{}
	rest := r.StepSec()
	for _, p := range Phases() {
		if p == PhaseOther || p == PhaseWait && r.Step == 0 {
			continue
		}
		phases[p] = r.Trainer.Phases[p]
		rest -= phases[p]
	}
	phases[PhaseOther] = max(rest, 0)
	return phases
}
