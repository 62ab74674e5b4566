// Package batchrows makes rows of a batch: one a trajectory, as a growing sequence of tokens. They have the tokens that
// sequences and merge_turns of the Python client give. Start reading at Of.
package batchrows

import (
	"slices"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
)

// Row is turns of one trajectory, each of which continues the one before. The lists are as long as TokenIDs.
type Row struct {
	Run          string `json:"run" parquet:"run,dict"`
	Step         int64  `json:"step" parquet:"step"`
	Group        int64  `json:"group" parquet:"group"`
	Sample       int32  `json:"sample" parquet:"sample"` // which game of the group
	Agent        string `json:"agent" parquet:"agent,dict"`
	TrajectoryID string `json:"trajectory_id" parquet:"trajectory_id"`
	// SequenceIndex is which turn of the trajectory the row begins with. One that does not continue the turn before begins
	// a row of its own.
	SequenceIndex int32     `json:"sequence_index" parquet:"sequence_index"`
	Reward        float64   `json:"reward" parquet:"reward"`
	Advantage     float64   `json:"advantage" parquet:"advantage"`
	Truncated     bool      `json:"truncated" parquet:"truncated"`           // the game was cut at its horizon
	PolicyVersion int64     `json:"policy_version" parquet:"policy_version"` // the oldest in the row
	TokenIDs      []int32   `json:"token_ids" parquet:"token_ids,list"`
	LossMask      []int8    `json:"loss_mask" parquet:"loss_mask,list"` // 1 where the token was sampled
	Logprobs      []float32 `json:"logprobs" parquet:"logprobs,list"`   // 0 where it was not
	// PolicyVersions says which version sampled each token, -1 where none did; it is empty if one version sampled all.
	PolicyVersions []int64 `json:"policy_versions,omitempty" parquet:"policy_versions,list"`
	Turns          []Turn  `json:"turns" parquet:"turns,list"`
}

// Turn is a completion in a row: TokenIDs[Begin:End].
type Turn struct {
	Begin         int32       `json:"begin" parquet:"begin"`
	End           int32       `json:"end" parquet:"end"`
	Phase         string      `json:"phase" parquet:"phase,dict"`
	PolicyVersion int64       `json:"policy_version" parquet:"policy_version"`
	FinishReason  string      `json:"finish_reason" parquet:"finish_reason,dict"`
	Reward        float64     `json:"reward" parquet:"reward"`
	Text          string      `json:"text" parquet:"text"`
	Constraint    *Constraint `json:"constraint" parquet:"constraint,optional"` // what it was held to
}

// Constraint is a rollout.Constraint.
type Constraint struct {
	Kind    string   `json:"kind" parquet:"kind,dict"`
	Pattern string   `json:"pattern,omitempty" parquet:"pattern,dict"`
	Choices []string `json:"choices,omitempty" parquet:"choices,list"`
}

// Of is the rows of a batch, in its order. A trajectory without turns has none.
func Of(batch *api.Batch) (rows []Row) {
	for _, group := range batch.Groups {
		for _, trajectory := range group.Trajectories {
			rows = append(rows, merged(Row{
				Run: string(batch.Run), Step: int64(batch.Step), Group: int64(group.Ref.Seq), Sample: int32(trajectory.Sample),
				Agent: trajectory.Agent, TrajectoryID: trajectory.ID, Reward: trajectory.Reward, Advantage: trajectory.Advantage,
				Truncated: trajectory.Truncated,
			}, trajectory.Turns, group.Constraints)...)
		}
	}
	return rows
}

// merged is the rows of a trajectory, of which the head is the same.
func merged(head Row, turns []api.BatchTurn, constraints []rollout.Constraint) (rows []Row) {
	for i, turn := range turns {
		var known []int32
		if i > 0 {
			known = rows[len(rows)-1].TokenIDs
		}
		n, prompt := len(known), turn.PromptTokenIDs
		if i == 0 || len(prompt) < n || !slices.Equal(prompt[:n], known) {
			head.SequenceIndex, head.PolicyVersion, n = int32(i), int64(turn.PolicyVersion), 0
			rows = append(rows, head)
		}
		rows[len(rows)-1].add(turn, len(prompt)-n, constraints)
	}
	for i := range rows {
		row := &rows[i]
		if !slices.ContainsFunc(row.Turns, func(t Turn) bool { return t.PolicyVersion != row.PolicyVersion }) {
			row.PolicyVersions = nil
		}
	}
	return rows
}

// add appends a turn whose prompt is all that the row has, and some tokens between.
func (r *Row) add(turn api.BatchTurn, between int, constraints []rollout.Constraint) {
	version := int64(turn.PolicyVersion)
	r.PolicyVersion = min(r.PolicyVersion, version)
	r.TokenIDs = slices.Concat(turn.PromptTokenIDs, turn.TokenIDs)
	r.Logprobs = append(append(r.Logprobs, make([]float32, between)...), turn.Logprobs...)
	r.LossMask = append(append(r.LossMask, make([]int8, between)...), turn.LossMask...)
	r.PolicyVersions = append(append(r.PolicyVersions, slices.Repeat([]int64{-1}, between)...),
		slices.Repeat([]int64{version}, len(turn.TokenIDs))...)
	added := Turn{Begin: int32(len(turn.PromptTokenIDs)), End: int32(len(r.TokenIDs)), Phase: turn.Phase,
		PolicyVersion: version, FinishReason: turn.FinishReason, Reward: turn.Reward, Text: turn.Text}
	if at := turn.ConstraintIndex; at != nil {
		held := constraints[*at]
		added.Constraint = &Constraint{string(held.Kind), held.Pattern, held.Choices}
	}
	r.Turns = append(r.Turns, added)
}
