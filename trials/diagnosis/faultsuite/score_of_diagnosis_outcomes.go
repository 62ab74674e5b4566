package faultsuite

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
)

// Score is a suite in a few numbers.
type Score struct {
	Faults, Right, Named int // runs with a fault; of these, with the right cause first, and named at all
	Missed               int // of the faults: nothing was said
	Healthy, FalseAlarms int
	Advice, WrongFixes   int
	Inside               int       // of the advice: the true step time is in the range that was said
	Open                 int       // of the advice: it may help, by the records, and may not
	Errors               []float64 // of the predicted step times, in order
}

// ScoreOf counts.
func ScoreOf(outcomes []Outcome) Score {
	var s Score
	for i := range outcomes {
		o := &outcomes[i]
		if o.Case.Healthy() {
			s.Healthy++
			if !o.Right() {
				s.FalseAlarms++
			}
		} else {
			s.Faults++
			switch {
			case o.Right():
				s.Right++
				s.Named++
			case o.Named():
				s.Named++
			case o.Said == "":
				s.Missed++
			}
		}
		for _, a := range o.Advice {
			s.Advice++
			s.Errors = append(s.Errors, a.Error)
			if a.Outcome == diagnosis.MayHelp {
				s.Open++
			}
			if a.Inside {
				s.Inside++
			}
			if a.Wrong {
				s.WrongFixes++
			}
		}
	}
	slices.Sort(s.Errors)
	return s
}

// Write writes the score for a person.
func (s Score) Write(w io.Writer) {
	fmt.Fprintf(w, "right cause first in %d of %d runs with a fault (%s), named in %d, nothing said in %d\n",
		s.Right, s.Faults, share(s.Right, s.Faults), s.Named, s.Missed)
	fmt.Fprintf(w, "false alarm in %d of %d healthy runs (%s)\n", s.FalseAlarms, s.Healthy,
		share(s.FalseAlarms, s.Healthy))
	if n := len(s.Errors); n > 0 {
		fmt.Fprintf(w, "wrong advice in %d of %d what-ifs, of which %d may help or not; their step time is off by %s in the "+
			"median, %s in nine of ten, %s at most, and in the range in %s\n", s.WrongFixes, s.Advice, s.Open,
			units.Percent(s.Errors[n/2]), units.Percent(s.Errors[n*9/10]), units.Percent(s.Errors[n-1]), share(s.Inside, n))
	}
}

func share(n, of int) string { return units.Percent(float64(n) / max(1, float64(of))) }

// WriteFaults writes one line for each case: what was said of its runs.
func WriteFaults(w io.Writer, outcomes []Outcome) error {
	t := table.New(table.Left("CASE"), table.Right("RIGHT"), table.Left("WANT"), table.Left("SAID"),
		table.Left("WRONG FIXES"))
	for _, of := range byCase(outcomes) {
		right, wrong := 0, []string{}
		said := map[string]int{}
		for _, o := range of {
			if o.Right() {
				right++
			}
			said[saidOf(o)]++
			for _, a := range o.WrongFixes() {
				text := fmt.Sprintf("%s: said %s %.0f s, true %.0f s, now %.0f s",
					a.Change, a.Outcome, a.SaidSec, a.TrueSec, a.NowSec)
				if len(wrong) < 2 {
					wrong = append(wrong, text)
				}
			}
		}
		t.Row(of[0].Case.Name, fmt.Sprintf("%d/%d", right, len(of)), wanted(of[0].Case), counted(said),
			strings.Join(wrong, "; "))
	}
	return t.Write(w, 0)
}

func byCase(outcomes []Outcome) [][]*Outcome {
	var out [][]*Outcome
	for i := range outcomes {
		o := &outcomes[i]
		if n := len(out); n > 0 && out[n-1][0].Case == o.Case {
			out[n-1] = append(out[n-1], o)
			continue
		}
		out = append(out, []*Outcome{o})
	}
	return out
}

func saidOf(o *Outcome) string {
	switch {
	case o.Err != nil:
		return "error: " + o.Err.Error()
	case o.Said == "":
		return string(o.Verdict)
	}
	return string(o.Said)
}

func wanted(c *Case) string {
	if c.Healthy() {
		return "-"
	}
	names := make([]string, len(c.Want))
	for i, n := range c.Want {
		names[i] = string(n)
	}
	return strings.Join(names, "|")
}

func counted(said map[string]int) string {
	names := make([]string, 0, len(said))
	for name := range said {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(said[b]-said[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, said[name])
	}
	return strings.Join(names, ", ")
}
