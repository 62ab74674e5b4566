package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// batchSchema, groupSchema, trajectorySchema and turnSchema document a batch as writeBatchJSON writes it: rollout.Batch
// with a loss_mask in every turn.
type batchSchema struct {
	rollout.Batch
	Groups []groupSchema `json:"groups"`
}

type groupSchema struct {
	rollout.Group
	Trajectories []trajectorySchema `json:"trajectories"`
}

type trajectorySchema struct {
	rollout.Trajectory
	Turns []turnSchema `json:"turns" doc:"Each turn is its own sequence"`
}

type turnSchema struct {
	rollout.Turn
	LossMask []int `json:"loss_mask" doc:"As long as token_ids: 1 where the token was sampled and is trained on"`
}

// The heads are the same values without their lists: an embedded field is hidden by a shallower one of the same
// name, and that one is always left out.
type (
	batchHead struct {
		Run            rollout.RunName       `json:"run"`
		Step           rollout.Step          `json:"step"`
		TrainerVersion rollout.PolicyVersion `json:"trainer_version"`
	}
	groupHead struct {
		*rollout.Group
		Trajectories struct{} `json:"trajectories,omitzero"`
	}
)

// flushBytes is how much is gathered before it is written.
const flushBytes = 64 << 10

// writeBatchJSON writes a batch as JSON, one trajectory at a time: a batch of the reference workload holds more than a
// million numbers.
func writeBatchJSON(w io.Writer, b *buffer.RawBatch) error {
	out := bufio.NewWriterSize(w, flushBytes) // it keeps its first error until it is flushed
	if err := openList(out, batchHead{b.Run.Plain(), b.Step, b.TrainerVersion}, "groups"); err != nil {
		return err
	}
	between := ""
	for group, err := range b.All() {
		if err != nil {
			return err
		}
		_, _ = out.WriteString(between)
		if err := writeGroupJSON(out, group); err != nil {
			return err
		}
		between = ","
	}
	_, _ = out.WriteString("]}\n")
	return out.Flush()
}

func writeGroupJSON(out *bufio.Writer, g *rollout.Group) error {
	if err := openList(out, groupHead{Group: g}, "trajectories"); err != nil {
		return err
	}
	for i := range g.Trajectories {
		text, err := json.Marshal(withLossMasks(g.Trajectories[i]))
		if err != nil {
			return err
		}
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(text)
	}
	_, err := out.WriteString("]}")
	return err
}

func withLossMasks(t rollout.Trajectory) trajectorySchema {
	masked := trajectorySchema{Trajectory: t, Turns: make([]turnSchema, len(t.Turns))}
	for i, turn := range t.Turns {
		masked.Turns[i] = turnSchema{turn, slices.Repeat([]int{1}, len(turn.TokenIDs))}
	}
	return masked
}

// openList writes head's object up to the beginning of a list that comes after its other fields.
func openList(out *bufio.Writer, head any, list string) error {
	object, err := json.Marshal(head)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `%s,"%s":[`, bytes.TrimSuffix(object, []byte("}")), list)
	return err
}
