package telemetry

import (
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"slices"
)

// GroupReady reports a group committed to the buffer.
type GroupReady struct {
	Group        steprecord.GroupView `json:"group"`
	Trajectories int                  `json:"trajectories"`
	Failed       int                  `json:"failed"`
}

var groupReadyKind = fact[GroupReady]("group_ready")

func (GroupReady) kind() *kind { return groupReadyKind }

func (b GroupReady) row(r Row) {
	g := b.Group
	r["group_id"], r["policy_version"] = g.Seq, g.MinVersion
	r["queue_s"] = units.SecondsBetween(g.Times.LaunchedAt, g.Times.StartedAt)
	r["duration_s"] = units.SecondsBetween(g.Times.StartedAt, g.Times.ReadyAt)
	r["episodes"], r["episode_max_s"] = len(g.EpisodeSec), longest(g.EpisodeSec)
	r["model_max_s"], r["env_max_s"], r["dispatch_queue_max_s"] = longest(g.ModelSec), longest(g.EnvSec),
		longest(g.QueueSec)
	r["zero_variance"] = g.ZeroVariance
	r.lengths(g.Phases)
	r.usage(g.Usage)
	r["trajectories"], r["episodes_failed"] = b.Trajectories, b.Failed
}

// GroupDropped reports a group that will not be trained on.
type GroupDropped struct {
	Seq    rollout.GroupSeq `json:"group_seq"`
	Code   rollout.Code     `json:"code"`
	Phases []int            `json:"phases,omitempty"` // length of each game that was played to its end; empty: not known
}

var groupDroppedKind = fact[GroupDropped]("group_dropped")

func (GroupDropped) kind() *kind { return groupDroppedKind }

func (b GroupDropped) row(r Row) {
	r["group_id"], r["code"] = b.Seq, string(b.Code)
	r.lengths(b.Phases)
}

// EpisodeFinished reports one game.
type EpisodeFinished struct {
	Ref      rollout.EpisodeRef `json:"ref"`
	WallSec  float64            `json:"duration_s"`
	ModelSec float64            `json:"model_s"`
	EnvSec   float64            `json:"env_s"`
	QueueSec float64            `json:"queue_s"`
	Phases   int                `json:"phases"`
	Attempts int                `json:"attempts"`
	Usage    rollout.Usage      `json:"usage"`
	Counts   map[string]int64   `json:"counts,omitempty"` // the environment's own, such as orders by validity

	Rewards    map[string]float64    `json:"rewards,omitempty"`  // each agent's
	MinVersion rollout.PolicyVersion `json:"policy_version_min"` // oldest and newest that sampled any turn
	MaxVersion rollout.PolicyVersion `json:"policy_version_max"`
}

var episodeFinishedKind = fact[EpisodeFinished]("rollout_complete")

func (EpisodeFinished) kind() *kind { return episodeFinishedKind }

func (b EpisodeFinished) row(r Row) {
	r["group_id"], r["sample"] = b.Ref.Seq, b.Ref.Sample
	r["duration_s"], r["model_s"], r["env_s"], r["queue_s"] = b.WallSec, b.ModelSec, b.EnvSec, b.QueueSec
	r["phases"], r["attempts"] = b.Phases, b.Attempts
	r.usage(b.Usage)
	if len(b.Counts) > 0 {
		r["counts"] = b.Counts
	}
	if len(b.Rewards) > 0 {
		r["rewards"], r["policy_version"] = b.Rewards, b.MinVersion
	}
}

// EpisodeFailed reports a game that was given up or will be tried again.
type EpisodeFailed struct {
	Ref     rollout.EpisodeRef `json:"ref"`
	Code    rollout.Code       `json:"code"`
	Failure string             `json:"failure"`
	Attempt int                `json:"attempt"`
	Final   bool               `json:"final"`
	// Usage is of the game up to here, earlier attempts included, without requests that were cut off.
	Usage rollout.Usage `json:"usage"`
}

var episodeFailedKind = fact[EpisodeFailed]("rollout_error")

func (EpisodeFailed) kind() *kind { return episodeFailedKind }

func (b EpisodeFailed) row(r Row) {
	r["group_id"], r["sample"] = b.Ref.Seq, b.Ref.Sample
	r["code"], r["failure"], r["attempt"], r["final"] = string(b.Code), b.Failure, b.Attempt, b.Final
	r.usage(b.Usage)
}

// lengths sums up the lengths of a group's games, where they are known.
func (r Row) lengths(phases []int) {
	if len(phases) == 0 {
		return
	}
	r["phases_mean"] = float64(stat.Sum(slices.Values(phases))) / float64(len(phases))
}
