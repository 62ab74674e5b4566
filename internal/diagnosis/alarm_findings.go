package diagnosis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/rollout"
)

// withAlarms puts what keeps the games from being played before everything else: steps can say nothing about games that
// do not end.
func withAlarms(r Report, alarms []rollout.Alarm) Report {
	if len(alarms) == 0 {
		return r
	}
	found := make([]Finding, 0, len(alarms)+len(r.Findings))
	next := []string{}
	for _, a := range alarms {
		found = append(found, Finding{
			Cause: CauseName(a.Code), Verdict: VerdictProblem, Text: sentence(a.Text), Evidence: []Evidence{{a.Text, Measured}},
		})
		next = append(next, a.Advice)
	}
	r.Findings = append(found, r.Findings...)
	r.Verdict, r.Summary = VerdictProblem, found[0].Text
	r.Next = append(next, r.Next...)
	r.Missing = []string{} // what more steps would tell is not what is needed
	return r
}

// sentence is a text with a capital and a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
