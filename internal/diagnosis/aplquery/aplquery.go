// Package aplquery writes the queries that show in Axiom what a diagnosis says: for each cause the rows that speak for
// it, and for a run its steps, its tokens per second and what the trainer waited. A diagnosis itself reads Millrace's
// own store and never Axiom; the queries are for those who want to see the evidence with other eyes, beside other data.
//
// Events may be delivered twice, so each query takes an event once, by its event_id. It names its time itself: pasted
// into Axiom it shows the same, whatever the page's own range is.
//
// Start reading at WithQueries, then queries.yaml.
package aplquery

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

// Dataset is the dataset's name where the configuration has none.
const Dataset = "millrace"

// query is one question to Axiom, as queries.yaml has it.
type query struct {
	Shows  string
	Causes []diagnosis.CauseName // that it speaks for
	Kind   string
	Fleet  bool // events of this kind name no run
	Fields string
	Rest   string
}

//go:embed queries.yaml
var document []byte

var queries = func() (all []query) {
	if err := yaml.Unmarshal(document, &all); err != nil {
		panic(err) // the program was built with a faulty file
	}
	return all
}()

// Scope is whose evidence is asked for, and from when to when.
type Scope struct {
	Dataset  string // empty: Dataset
	Run      rollout.RunName
	From, To time.Time // both in it; zero: from the first event, up to now
}

// queriesOfReport bounds the queries of a report: those of its first causes.
const queriesOfReport = 6

// WithQueries adds queries that show the report's evidence in Axiom, over the time of its steps: for the first finding,
// then for the other causes, or for the steps of a healthy run.
func WithQueries(r diagnosis.Report, dataset string, span [2]time.Time) diagnosis.Report {
	s := Scope{Dataset: dataset, Run: r.Run, From: span[0], To: span[1]}
	if s.To.Before(s.From) { // the last step is not completed
		s.To = time.Time{}
	}
	var causes []diagnosis.CauseName
	for _, f := range r.Findings {
		causes = append(causes, f.Cause)
	}
	for _, c := range r.Causes {
		if c.Decision == diagnosis.IsCause {
			causes = append(causes, c.Name)
		}
	}
	if len(causes) == 0 {
		causes = append(causes, diagnosis.CauseStarvation, diagnosis.CauseThroughput)
	}
	r.APL = []diagnosis.Query{}
	seen := map[string]bool{}
	for _, cause := range causes {
		q := Query(cause, s)
		if !seen[q.Shows] && len(r.APL) < queriesOfReport {
			seen[q.Shows] = true
			r.APL = append(r.APL, q)
		}
	}
	return r
}

// Query shows whether a cause is the cause. One that this version does not know has the run's steps.
func Query(cause diagnosis.CauseName, s Scope) diagnosis.Query {
	of := queries[max(0, slices.IndexFunc(queries, func(q query) bool { return slices.Contains(q.Causes, cause) }))]
	return diagnosis.Query{Shows: of.Shows, APL: s.once(of) + "\n" + of.Rest}
}

// once begins a query: each event once, with the fields that are named. Events of engines belong to no run: they are
// taken whole.
func (s Scope) once(q query) string {
	conditions := []string{fmt.Sprintf("kind == %s", quoted(q.Kind))}
	if !q.Fleet {
		conditions = append(conditions, fmt.Sprintf("run_id == %s", quoted(string(s.Run))))
	}
	if !s.From.IsZero() {
		conditions = append(conditions, "_time >= "+datetime(s.From.Truncate(time.Second)))
	}
	if !s.To.IsZero() {
		conditions = append(conditions, "_time <= "+datetime(s.To.Add(time.Second-1).Truncate(time.Second)))
	}
	return fmt.Sprintf("[%s]\n| where %s\n| summarize arg_max(_time, %s) by event_id",
		quoted(cmp.Or(s.Dataset, Dataset)), strings.Join(conditions, "\n    and "), q.Fields)
}

func datetime(at time.Time) string {
	return "datetime(" + at.UTC().Format("2006-01-02T15:04:05Z") + ")"
}

// quoted writes a text as a literal of the language.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
