package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
