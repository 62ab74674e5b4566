package sim

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/markdowntest"
	"github.com/millrace/millrace/internal/kit/settings"
)

// TestReferencePage holds the page about the simulator to the table that setups are read by.
func TestReferencePage(t *testing.T) {
	t.Parallel()
	markdowntest.Hold(t, "../../../docs/simulator.md", "keys", setupReference())
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
