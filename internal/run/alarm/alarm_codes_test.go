package alarm_test

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// TestEveryCodeIsExplained: an alarm says what would clear it, and an operator finds its code on every page.
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"docs/alerts.md", "docs/diagnosis.md", "internal/observe/prom/metrics.json"} {
		page, err := os.ReadFile("../../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range runstatus.AlarmCodes() {
			if !strings.Contains(string(page), string(code)) {
				t.Errorf("%s does not explain %s", path, code)
			}
		}
	}
	for _, code := range runstatus.AlarmCodes() {
		if code.Awaited() == "" {
			t.Errorf("nothing says what would clear %s", code)
		}
	}
}
