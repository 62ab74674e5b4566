package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/termtext"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm"
)

// showAlarms writes what stops the run's games, and what to do about it.
func (s *session) showAlarms(alarms []runstatus.Alarm) {
	for _, a := range alarms {
		s.paragraph("PROBLEM  ", a.Text)
		s.paragraph("to do    ", a.Advice)
	}
	if len(alarms) > 0 {
		fmt.Fprintln(s.Stdout)
	}
}

// paragraph writes a text behind a word, broken at the terminal's width.
func (s *session) paragraph(lead, text string) {
	width := s.width()
	for _, line := range wrapped(text, width-len(lead), width > 0) {
		fmt.Fprintln(s.Stdout, lead+termtext.Line(line))
		lead = strings.Repeat(" ", len(lead))
	}
}

// wrapped is a text in lines of at most so many characters where its words allow that.
func wrapped(text string, width int, wrap bool) []string {
	words := strings.Fields(text)
	if !wrap || len(words) == 0 {
		return []string{strings.Join(words, " ")}
	}
	lines := words[:1:1]
	for _, word := range words[1:] {
		if last := &lines[len(lines)-1]; len(*last)+1+len(word) <= width {
			*last += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// attemptsText is how many games were finished and how many attempts failed; empty before the first.
func attemptsText(t runstatus.AttemptCounts) string {
	if t.Finished+t.Failed == 0 {
		return ""
	}
	text := fmt.Sprintf("%d games finished, %d attempts failed", t.Finished, t.Failed)
	if worst, failing := t.Worst(); failing {
		text += fmt.Sprintf(", the last %d in a row with %s", worst.InRow, worst.Code)
	}
	return text
}

// showFailures writes the attempts that failed, by code, with the latest of each and what to do.
func (s *session) showFailures(v *tablerow.Run) error {
	if len(v.Attempts.ByCode) == 0 {
		return nil
	}
	fmt.Fprintln(s.Stdout)
	t := table.New(table.Left("FAILED WITH"), table.Right("ATTEMPTS"), table.Right("GIVEN UP"), table.Right("IN A ROW"),
		table.Right("LAST"), table.Left("GAME"), table.Left("LAST ERROR"))
	for _, f := range v.Attempts.ByCode {
		t.Row(string(f.Code), count(f.Attempts), count(f.GivenUp), count(f.InRow),
			tablerow.Ago(f.LastAt, s.now()), f.LastGame,
			f.Last)
	}
	if err := s.write(t); err != nil {
		return err
	}
	for _, f := range v.Attempts.ByCode {
		todo := fmt.Sprintf("see: millrace events %s --code %s", v.Spec.Name, f.Code)
		if advice := alarm.Advice(f.Code, v.Spec); advice != "" {
			todo = advice + "; " + todo
		}
		s.paragraph("to do    ", fmt.Sprintf("%s: %s", f.Code, todo))
	}
	return nil
}

// counters are the environment's counters of finished games in a sentence for each thing that is counted: answers,
// orders.
type counters struct{ what, text string }

// countersOf groups counters such as answers_full and answers_invalid by what they count, with the shares of the whole.
func countersOf(counts map[string]int64) []counters {
	total := map[string]int64{}
	for name, n := range counts {
		what, _, _ := strings.Cut(name, "_")
		total[what] += n
	}
	var out []counters
	for _, what := range slices.Sorted(maps.Keys(total)) {
		parts := []string{}
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if of, kind, ok := strings.Cut(name, "_"); ok && of == what && counts[name] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s (%s)", counts[name], strings.ReplaceAll(kind, "_", " "),
					tenth(counts[name], total[what])))
			}
		}
		if len(parts) > 0 {
			out = append(out, counters{what, fmt.Sprintf("%d: %s", total[what], strings.Join(parts, ", "))})
		}
	}
	return out
}

// invalidText counts the answers that an environment could not use; empty when there are none.
func invalidText(counts map[string]int64) string {
	total, invalid := int64(0), counts["answers_invalid"]+counts["answers_empty"]
	for name, n := range counts {
		if strings.HasPrefix(name, "answers_") {
			total += n
		}
	}
	if invalid == 0 {
		return ""
	}
	return fmt.Sprintf("answers invalid %d of %d (%s)", invalid, total, tenth(invalid, total))
}

// tenth is a share with a digit that shows few of many.
func tenth(n, of int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, of))) }
