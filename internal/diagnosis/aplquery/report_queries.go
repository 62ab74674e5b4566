package aplquery

import (
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
)

// queriesOfReport bounds the queries of a report: the most telling of its first causes.
const queriesOfReport = 6

// WithQueries is a report with the queries that show its evidence in Axiom, over the time of its steps: of the first
// finding, then of the other causes, or of a healthy run its overview.
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
	var found []Query
	for i, cause := range causes {
		of := Queries(cause, s)
		if i > 0 && len(of) > 1 {
			of = of[:1]
		}
		found = append(found, of...)
	}
	if len(causes) == 0 {
		found = Overview(s)
	}
	r.APL = []diagnosis.Query{}
	seen := map[string]bool{}
	for _, q := range found {
		if !seen[q.APL] && len(r.APL) < queriesOfReport {
			seen[q.APL] = true
			r.APL = append(r.APL, diagnosis.Query{Shows: q.Title, APL: q.APL})
		}
	}
	return r
}
