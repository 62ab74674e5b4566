package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

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
	none      struct{}
	batchHead struct {
		Run            rollout.RunName       `json:"run"`
		Step           rollout.Step          `json:"step"`
		TrainerVersion rollout.PolicyVersion `json:"trainer_version"`
	}
	groupHead struct {
		*rollout.Group
		Trajectories none `json:"trajectories,omitzero"`
	}
	trajectoryHead struct {
		*rollout.Trajectory
		Turns none `json:"turns,omitzero"`
	}
	turnHead struct {
		*rollout.Turn
		PromptTokenIDs none `json:"prompt_token_ids,omitzero"`
		TokenIDs       none `json:"token_ids,omitzero"`
		Logprobs       none `json:"logprobs,omitzero"`
	}
)

// flushBytes is how much is gathered before it is written.
const flushBytes = 64 << 10

// writeBatchJSON writes a batch as JSON, one group at a time. Nearly all of it is lists of numbers, which are
// written by hand: a batch of the reference workload holds more than a million of them.
func writeBatchJSON(w io.Writer, b *buffer.RawBatch) error {
	e := &batchEncoder{w: w}
	e.open(batchHead{b.Run.Plain(), b.Step, b.TrainerVersion}, "groups")
	first := true
	for group, err := range b.All() {
		if err != nil {
			return err
		}
		if !first {
			e.text(",")
		}
		first = false
		e.group(group)
	}
	e.text("]}\n")
	e.flush()
	return e.err
}

// batchEncoder gathers JSON and writes it in pieces; after the first error it does nothing more.
type batchEncoder struct {
	w   io.Writer
	buf []byte
	err error
}

func (e *batchEncoder) group(g *rollout.Group) {
	e.open(groupHead{Group: g}, "trajectories")
	for t := range g.Trajectories {
		e.next(t)
		e.trajectory(&g.Trajectories[t])
	}
	e.text("]}")
}

func (e *batchEncoder) trajectory(t *rollout.Trajectory) {
	e.open(trajectoryHead{Trajectory: t}, "turns")
	for i := range t.Turns {
		e.next(i)
		e.turn(&t.Turns[i])
	}
	e.text("]}")
}

func (e *batchEncoder) turn(t *rollout.Turn) {
	e.open(turnHead{Turn: t}, "prompt_token_ids")
	e.ints(t.PromptTokenIDs)
	e.text(`],"token_ids":[`)
	e.ints(t.TokenIDs)
	e.text(`],"logprobs":[`)
	e.floats(t.Logprobs)
	e.text(`],"loss_mask":[`)
	for i := range t.TokenIDs {
		e.next(i)
		e.text("1")
	}
	e.text("]}")
	if len(e.buf) >= flushBytes {
		e.flush()
	}
}

// open writes head's object up to the beginning of a list that comes after its other fields.
func (e *batchEncoder) open(head any, list string) {
	object, err := json.Marshal(head)
	if err != nil {
		e.fail(err)
		return
	}
	e.buf = append(e.buf, bytes.TrimSuffix(object, []byte("}"))...)
	e.buf = append(e.buf, `,"`...)
	e.buf = append(e.buf, list...)
	e.buf = append(e.buf, `":[`...)
}

// next puts a comma before every element but the first.
func (e *batchEncoder) next(i int) {
	if i > 0 {
		e.buf = append(e.buf, ',')
	}
}

func (e *batchEncoder) ints(values []int32) {
	for i, v := range values {
		e.next(i)
		e.buf = strconv.AppendInt(e.buf, int64(v), 10)
	}
}

func (e *batchEncoder) floats(values []float32) {
	for i, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			e.fail(fmt.Errorf("logprob %v is not a number that JSON has", v))
			return
		}
		e.next(i)
		e.buf = strconv.AppendFloat(e.buf, float64(v), 'g', -1, 32)
	}
}

func (e *batchEncoder) text(s string) { e.buf = append(e.buf, s...) }

func (e *batchEncoder) flush() {
	if e.err == nil {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

func (e *batchEncoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}
