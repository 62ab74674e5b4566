// Package aplquery writes the queries that show in Axiom what a diagnosis says: for each cause the rows that speak for
// it, and for a run its steps, its throughput, its starvation and how much of its time the trainer computed. A
// diagnosis itself reads Millrace's own store and never Axiom; the queries are for those who want to see the evidence
// with other eyes, beside other data.
//
// Events may be delivered twice, so each query takes an event once, by its event_id. It names its time itself: pasted
// into Axiom it shows the same, whatever the page's own range is.
//
// Start reading at Queries, then cause_queries.go.
package aplquery

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

// Dataset is the dataset's name where the configuration has none.
const Dataset = "millrace"

// Scope is whose evidence is asked for, and from when to when.
type Scope struct {
	Dataset  string // empty: Dataset
	Run      rollout.RunName
	From, To time.Time // both in it; zero: from the first event, up to now
}

// Query is one question to Axiom.
type Query struct {
	Title string `json:"title"` // what the answer shows
	APL   string `json:"apl"`
}

// Queries are those that show whether a cause is the cause, the most telling first. A cause that this version does not
// know has the run's steps.
func Queries(cause diagnosis.CauseName, s Scope) []Query {
	if of, known := byCause[cause]; known {
		return of(s)
	}
	return []Query{Steps(s)}
}

// Overview is a run at a glance: steps, starvation, throughput, computing.
func Overview(s Scope) []Query {
	return []Query{Steps(s), Starvation(s), Throughput(s), Computing(s)}
}

// Steps has each step with its phases.
func Steps(s Scope) Query {
	return Query{"Steps and their phases", s.once("training_step", stepFields...) + `
| project step, wall_s, starved_s, phase_wait_s, phase_load_s, phase_ref_logprobs_s, phase_train_s, phase_publish_s,
    phase_checkpoint_s, phase_other_s
| order by step asc`}
}

var stepFields = []string{"step", "wall_s", "starved_s", "phase_wait_s", "phase_load_s", "phase_ref_logprobs_s",
	"phase_train_s", "phase_publish_s", "phase_checkpoint_s", "phase_other_s"}

// Starvation has the seconds that the trainer waited, without the wait before the first step, and their share of all.
func Starvation(s Scope) Query {
	return Query{"Seconds the trainer waited for its batch, and their share of the time of the steps",
		s.once("training_step", "step", "wall_s", "phase_wait_s") + `
| where step > 0
| summarize waited_s = sum(phase_wait_s), all_s = sum(wall_s), steps = count()
| extend share = iff(all_s > 0, 1.0 * waited_s / all_s, 0.0)`}
}

// Throughput has the engines' tokens per second, from their own counters: rates add up across engines.
func Throughput(s Scope) Query {
	return Query{"Input and output tokens per second of all engines", s.once("engine_sample", "engine_id", "window_s",
		"input_tokens_per_s", "output_tokens_per_s", "running_requests", "waiting_requests") + `
| extend input_tokens = input_tokens_per_s * window_s, output_tokens = output_tokens_per_s * window_s
| summarize input_tokens = sum(input_tokens), output_tokens = sum(output_tokens), window_s = sum(window_s),
    samples = count(), engines = dcount(engine_id)
| extend input_tokens_per_s = iff(window_s > 0, 1.0 * engines * input_tokens / window_s, 0.0),
    output_tokens_per_s = iff(window_s > 0, 1.0 * engines * output_tokens / window_s, 0.0)`}
}

// Computing has the share of the time in which the trainer computed, without the wait before the first step. It is not
// the goodput of a diagnosis, whose ledger takes off what was slow within the computing, such as single steps, and adds
// what publishing takes at least.
func Computing(s Scope) Query {
	return Query{"Share of the time in which the trainer computed",
		s.once("training_step", stepFields...) + `
| extend all_s = iff(step > 0, wall_s, wall_s - phase_wait_s),
    useful_s = phase_load_s + phase_ref_logprobs_s + phase_train_s
| summarize useful_s = sum(useful_s), all_s = sum(all_s), steps = count()
| extend computing_share = iff(all_s > 0, 1.0 * useful_s / all_s, 0.0)`}
}

// once begins a query of a kind of events: each event once, with the fields that are named. Events of engines belong
// to no run: they are taken whole.
func (s Scope) once(kind string, fields ...string) string {
	conditions := []string{fmt.Sprintf("kind == %s", quoted(kind))}
	if !ofFleet[kind] {
		conditions = append(conditions, fmt.Sprintf("run_id == %s", quoted(string(s.Run))))
	}
	if !s.From.IsZero() {
		conditions = append(conditions, "_time >= "+datetime(s.From.Truncate(time.Second)))
	}
	if !s.To.IsZero() {
		conditions = append(conditions, "_time <= "+datetime(s.To.Add(time.Second-1).Truncate(time.Second)))
	}
	dataset := s.Dataset
	if dataset == "" {
		dataset = Dataset
	}
	return fmt.Sprintf("[%s]\n| where %s\n| summarize arg_max(_time, %s) by event_id", quoted(dataset),
		strings.Join(conditions, "\n    and "), listed(fields))
}

// listed is fields in lines that a terminal has room for.
func listed(fields []string) string {
	const most = 60
	text, line := "", 0
	for i, f := range fields {
		switch {
		case i > 0 && line+len(f) > most:
			text, line = text+",\n    ", 0
		case i > 0:
			text += ", "
		}
		text, line = text+f, line+len(f)+2
	}
	return text
}

// ofFleet are the kinds whose events name no run.
var ofFleet = map[string]bool{"engine_sample": true, "engine_changed": true, "engine_paced": true, "audit": true,
	"fleet_scaled": true, "fleet_measured": true, "provider_changed": true}

func datetime(at time.Time) string {
	return "datetime(" + at.UTC().Format("2006-01-02T15:04:05Z") + ")"
}

// quoted writes a text as a literal of the language.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// Known reports whether a cause has queries of its own.
func Known(cause diagnosis.CauseName) bool { return byCause[cause] != nil }
