package sim

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/settings"
)

var update = flag.Bool("update", false, "write the tables of docs/simulator.md instead of comparing them")

const (
	referenceFile = "../../docs/simulator.md"
	keysBegin     = "<!-- keys: begin; written by go test ./internal/sim -run Reference -update -->\n"
	keysEnd       = "<!-- keys: end -->\n"
)

// TestReferenceIsUpToDate holds the page about the simulator to the table that setups are read by; -update writes its
// tables.
func TestReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), keysBegin)
	written, after, end := strings.Cut(rest, keysEnd)
	if !ok || !end {
		t.Fatalf("%s has no place for the keys", referenceFile)
	}
	want := setupReference()
	if *update {
		if err := os.WriteFile(referenceFile, []byte(before+keysBegin+want+keysEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != want {
		t.Errorf("%s differs from the table of keys; go test ./internal/sim -run Reference -update writes it again",
			referenceFile)
	}
}

// setupReference is a table of keys for each section that a setup has beside a spec's.
func setupReference() string {
	var b strings.Builder
	defaults := DefaultSetup()
	defaults.Workload = Workload{&GameDistribution{}, &RecordedGames{}, &BotGames{}} // so that each key has its place
	for _, key := range sections.Keys {
		if key.Default != nil {
			key.SetDefault(&defaults)
		}
	}
	for _, key := range sections.Keys {
		v := key.Of(&defaults)
		list := v.IsValid() && v.Kind() == reflect.Slice
		if v.IsValid() && v.Kind() == reflect.Struct && strings.Count(key.Path, ".") == 0 || list {
			fmt.Fprintf(&b, "\n### `%s`\n\n%s.\n\n| key | default | values | meaning |\n|---|---|---|---|\n", key.Path,
				strings.ToUpper(key.Doc[:1])+key.Doc[1:])
			continue
		}
		values, preset := key.Values(&defaults), standard(key, v, &defaults)
		if name, ofEvent := strings.CutPrefix(key.Path, "fleet.events."); ofEvent {
			row, event := key, &FleetEvent{}
			row.Path = name
			values, preset = row.Values(event), "`"+row.Text(event)+"`"
			if row.Required {
				preset = "required"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key.Path, preset, values, strings.ReplaceAll(key.Doc, "|", `\|`))
	}
	b.WriteByte('\n')
	return b.String()
}

// standard is the default of a key; a section has none.
func standard(key settings.Key, v reflect.Value, defaults *Setup) string {
	switch {
	case !v.IsValid():
		return ""
	case v.Kind() == reflect.Struct, v.Kind() == reflect.Pointer:
		return ""
	}
	if text := key.Text(defaults); text != "" {
		return "`" + text + "`"
	}
	return "none"
}
