package runstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Mark is how far the account of a run has come: trainers announced, batches granted, steps completed. The buffer has
// it in Redis and the run's workflow in Temporal, where it is written before a trainer is told. A buffer whose mark is
// behind the workflow's came back older than it was.
type Mark struct {
	Era        int64                     `json:"era"`    // of the account: raised by each repair; 0: no run has confirmed it yet
	Serial     int64                     `json:"serial"` // raised by all that the mark is about, and never lowered
	Generation rollout.TrainerGeneration `json:"generation"`
	Granted    rollout.Step              `json:"granted"`   // first step never granted
	Completed  rollout.Step              `json:"completed"` // first step not completed
	Version    rollout.PolicyVersion     `json:"policy_version"`
	Grants     []Grant                   `json:"grants,omitempty"` // latest, by step
	Terms      []Term                    `json:"terms,omitempty"`  // latest, by step; only the run's workflow has them
}

// Term is from which step on the records are those of a trainer, or of later ones: it announced itself there, as the
// successor of others or to go back.
type Term struct {
	From       rollout.Step              `json:"from"`
	Generation rollout.TrainerGeneration `json:"generation"`
}

// keptTerms bounds the terms of a mark.
const keptTerms = 32

// Begin notes that a trainer has announced itself whose first step is from. One that is not later than the last changes
// nothing.
func (m *Mark) Begin(generation rollout.TrainerGeneration, from rollout.Step) {
	if generation <= m.LastTerm() {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(m.Terms), func(t Term) bool { return t.From >= from })
	m.Terms = append(kept[max(0, len(kept)-keptTerms+1):], Term{from, generation})
}

// Grant is which batch was granted to a step.
type Grant struct {
	Step    rollout.Step          `json:"step"`
	Seqs    []rollout.GroupSeq    `json:"seqs"`             // by launch
	Version rollout.PolicyVersion `json:"policy_version"`   // newest one when it was granted, which the batch says
	Digest  string                `json:"digest,omitempty"` // of the groups as stored
	Lost    bool                  `json:"lost,omitempty"`   // Redis came back without it
}

// Behind reports whether a mark is older than another one: of an earlier era, or of the same one and with less in it,
// also before any run has confirmed the account.
func (m Mark) Behind(other Mark) bool {
	if m.Era != other.Era {
		return m.Era < other.Era
	}
	return m.Serial < other.Serial
}

// Contradicts reports whether a step was granted with one batch by one mark and with another one by the other.
func (m Mark) Contradicts(other Mark) bool {
	return slices.ContainsFunc(m.Grants, func(g Grant) bool {
		o := other.Grant(g.Step)
		return o != nil && !o.Lost && o.Digest != "" && g.Digest != "" && o.Digest != g.Digest
	})
}

// LastTerm is the generation of the trainer that has announced itself last; 0: none has.
func (m *Mark) LastTerm() rollout.TrainerGeneration {
	if len(m.Terms) == 0 {
		return 0
	}
	return m.Terms[len(m.Terms)-1].Generation
}

// Grant is the batch of a step, or nil where the mark does not have it.
func (m Mark) Grant(step rollout.Step) *Grant {
	i := slices.IndexFunc(m.Grants, func(g Grant) bool { return g.Step == step })
	if i < 0 {
		return nil
	}
	return &m.Grants[i]
}

// Rollback is one time that the buffer's Redis came back older than it was, and what that cost.
type Rollback struct {
	At  time.Time `json:"at"`
	Era int64     `json:"era"` // of the account since
	// How far the account had come, and how far the one was that came back.
	Granted        rollout.Step `json:"granted"`
	FoundGranted   rollout.Step `json:"found_granted"`
	Completed      rollout.Step `json:"completed"`
	FoundCompleted rollout.Step `json:"found_completed"`

	LostBatches []rollout.Step `json:"lost_batches,omitempty"` // granted, and not there any more; the latest 64
	LostRecords int            `json:"lost_records,omitempty"` // of steps that stay completed
	LostGroups  int            `json:"lost_groups,omitempty"`  // dropped as `lost`
	Restored    int            `json:"restored,omitempty"`     // batches granted again as they were
}

// String says what a Redis that came back older has cost.
func (b Rollback) String() string {
	var parts []string
	if b.FoundGranted != b.Granted || b.FoundCompleted != b.Completed {
		parts = append(parts, fmt.Sprintf("it knew of %d steps granted and %d completed, not %d and %d", b.FoundGranted,
			b.FoundCompleted, b.Granted, b.Completed))
	}
	for _, part := range []struct {
		n    int
		what string
	}{
		{b.Restored, "batches granted again as they were"}, {len(b.LostBatches), "batches lost"},
		{b.LostRecords, "records of completed steps lost"}, {b.LostGroups, "groups lost"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	text := "Redis came back older than it was"
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}
