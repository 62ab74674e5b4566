package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// Batch is a batch as writeBatchJSON writes it: a rollout.Batch with a loss_mask in every turn, and each constraint
// once in its group.
type Batch struct {
	rollout.Batch
	Groups []BatchGroup `json:"groups"`
}

// BatchGroup is a group of a Batch.
type BatchGroup struct {
	rollout.Group
	Constraints  []rollout.Constraint `json:"constraints,omitempty" doc:"What the answers of the group's turns were held to"`
	Trajectories []BatchTrajectory    `json:"trajectories"`
}

// BatchTrajectory is a trajectory of a BatchGroup.
type BatchTrajectory struct {
	rollout.Trajectory
	Turns []BatchTurn `json:"turns" doc:"Each turn is its own sequence"`
}

// BatchTurn is a turn of a BatchTrajectory.
type BatchTurn struct {
	rollout.Turn
	Constraint      struct{} `json:"constraint,omitzero"`
	ConstraintIndex *int     `json:"constraint_index,omitempty" doc:"Which of the group's constraints the answer was held to; none: it was free. Logprobs are of the distribution renormalised over what it allows"`
	LossMask        []int8   `json:"loss_mask" doc:"As long as token_ids: 1 where the token was sampled and is trained on"`
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
		Constraints  []rollout.Constraint `json:"constraints,omitempty"`
		Trajectories struct{}             `json:"trajectories,omitzero"`
	}
	trajectoryHead struct {
		*rollout.Trajectory
		Turns struct{} `json:"turns,omitzero"`
	}
	turnHead struct {
		*rollout.Turn
		Constraint      struct{} `json:"constraint,omitzero"`
		ConstraintIndex *int     `json:"constraint_index,omitempty"`
		PromptTokenIDs  struct{} `json:"prompt_token_ids,omitzero"`
		TokenIDs        struct{} `json:"token_ids,omitzero"`
		Logprobs        struct{} `json:"logprobs,omitzero"`
	}
)

// flushBytes is how much is gathered before it is written.
const flushBytes = 64 << 10

// writeBatchJSON writes a batch as JSON, turn by turn.
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
	list, numbers := constraintsOf(g)
	if err := openList(out, groupHead{Group: g, Constraints: list}, "trajectories"); err != nil {
		return err
	}
	for i := range g.Trajectories {
		t := &g.Trajectories[i]
		separate(out, i)
		if err := openList(out, trajectoryHead{Trajectory: t}, "turns"); err != nil {
			return err
		}
		for k := range t.Turns {
			separate(out, k)
			number := numbers[0]
			numbers = numbers[1:]
			if err := writeTurnJSON(out, &t.Turns[k], number); err != nil {
				return err
			}
		}
		_, _ = out.WriteString("]}")
	}
	_, err := out.WriteString("]}")
	return err
}

// constraintsOf lists the constraints of a group, each once, and says for each turn which is its own.
func constraintsOf(g *rollout.Group) (list []rollout.Constraint, numbers []*int) {
	known := map[string]*int{"": nil}
	for i := range g.Trajectories {
		for k := range g.Trajectories[i].Turns {
			c := &g.Trajectories[i].Turns[k].Constraint
			text := string(c.Kind) + c.Pattern + strings.Join(c.Choices, "\x00")
			if _, ok := known[text]; !ok {
				number := len(list)
				known[text], list = &number, append(list, *c)
			}
			numbers = append(numbers, known[text])
		}
	}
	return list, numbers
}

// writeTurnJSON writes numbers by itself: encoding/json takes three times as long for them, and a batch of the
// reference workload holds more than a million.
func writeTurnJSON(out *bufio.Writer, t *rollout.Turn, constraint *int) error {
	for _, v := range t.Logprobs {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("logprob %v is not a number that JSON has", v)
		}
	}
	if err := openList(out, turnHead{Turn: t, ConstraintIndex: constraint}, "prompt_token_ids"); err != nil {
		return err
	}
	writeTokens(out, t.PromptTokenIDs)
	_, _ = out.WriteString(`],"token_ids":[`)
	writeTokens(out, t.TokenIDs)
	_, _ = out.WriteString(`],"logprobs":[`)
	for i, v := range t.Logprobs {
		separate(out, i)
		_, _ = out.Write(strconv.AppendFloat(out.AvailableBuffer(), float64(v), 'g', -1, 32))
	}
	_, _ = out.WriteString(`],"loss_mask":[`)
	_, _ = out.WriteString(strings.TrimSuffix(strings.Repeat("1,", len(t.TokenIDs)), ","))
	_, err := out.WriteString("]}")
	return err
}

func writeTokens(out *bufio.Writer, ids []int32) {
	for i, id := range ids {
		separate(out, i)
		_, _ = out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(id), 10))
	}
}

// separate puts a comma before every element of a list but the first.
func separate(out *bufio.Writer, i int) {
	if i > 0 {
		_ = out.WriteByte(',')
	}
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
