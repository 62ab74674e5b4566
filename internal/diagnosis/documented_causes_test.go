package diagnosis

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPageNamesEveryWord holds docs/diagnosis.md to the words that a report uses: verdicts, causes, decisions, regimes,
// resources, places, bases and outcomes.
func TestPageNamesEveryWord(t *testing.T) {
	t.Parallel()
	types, err := os.ReadFile("report_types_and_step_prices.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/diagnosis.md")
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(
		`(?m)^\t\w+ +(Verdict|CauseName|Decision|RegimeKind|Resource|Place|Basis|Outcome) += "([^"]+)"`)
	found := words.FindAllStringSubmatch(string(types), -1)
	if len(found) < 60 {
		t.Errorf("only %d words were found in report_types_and_step_prices.go", len(found))
	}
	for _, m := range found {
		if !strings.Contains(string(page), "`"+m[2]+"`") && !strings.Contains(string(page), "| "+m[2]+" |") {
			t.Errorf("docs/diagnosis.md does not name %s %q", m[1], m[2])
		}
	}
}
