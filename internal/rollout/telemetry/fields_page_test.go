package telemetry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/markdowntest"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

const page = "../../../docs/telemetry.md"

// TestPageHasEveryKindAndField holds the tables of docs/telemetry.md to the kinds: go test -run Page -update rewrites
// them.
func TestPageHasEveryKindAndField(t *testing.T) {
	markdowntest.Hold(t, page, "kinds", kindsTable(t))
	markdowntest.Hold(t, page, "fields", fieldsTable(t))
}

func kindsTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| kind | is a | comes when |\n|---|---|---|\n")
	for _, k := range telemetry.Schema() {
		is := "fact"
		if k.Sample {
			is = "sample"
		}
		if k.Meaning() == "" {
			t.Errorf("kind %s has no line in kindMeanings", k.Kind)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Kind, is, k.Meaning())
	}
	return b.String()
}

// everyKinds are the fields that all rows may have.
var everyKinds = []string{"_time", "kind", "event_id", "run_id", "engine_id"}

func fieldsTable(t *testing.T) string {
	kinds := map[string][]string{}
	for _, k := range telemetry.Schema() {
		for _, f := range k.Fields {
			kinds[f.Name] = append(kinds[f.Name], "`"+k.Kind+"`")
		}
	}
	var b strings.Builder
	b.WriteString("| field | type | is | in |\n|---|---|---|---|\n")
	for _, f := range telemetry.Fields() {
		if f.Meaning() == "" {
			t.Errorf("field %s has no line in fieldMeanings", f.Name)
		}
		in := strings.Join(kinds[f.Name], " ")
		if slices.Contains(everyKinds, f.Name) {
			in = "all"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, f.Meaning(), in)
	}
	return b.String()
}
